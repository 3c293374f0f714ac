"""What every part of a run shares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ledgers.cold.layout import FOOTER_BYTES, decode_block, index_bounds, read_index
from metadata.records.ledger_record import LedgerRecord
from tests.simulation.engine.processes import HostLoop
from tests.simulation.engine.world import Violation
from tests.simulation.shells.metadata import VirtualMetadata
from tests.simulation.shells.site import Site
from tests.simulation.shells.watch import Watch

from .plan import Plan


class ClusterSite(Site):
    """`directory` is where the machines keep their files; `broken` gathers what is seen where nothing can be raised."""

    def __init__(self, plan: Plan, loop: HostLoop, directory: Path) -> None:
        super().__init__(plan.seed, loop, plan.pace)
        self.plan = plan
        self.host_loop = loop
        self.directory = directory
        self.watch = Watch(lambda record: entries_in(self.objects, record))
        self.metadata = VirtualMetadata(self, self.watch)
        self.broken: list[Violation] = []
        self.is_calm = False
        self.objects: dict[str, tuple[bytes, float]] = {}
        """What the object store has, and when it shows it."""

    def violated(self, violation: Violation) -> None:
        """The run fails with this, whoever swallows it."""
        self.world.note("broken: %s", violation)
        self.broken.append(violation)


def entries_in(objects: Mapping[str, tuple[bytes, float]], record: LedgerRecord) -> Mapping[int, bytes]:
    """All entries in the objects that the record names."""
    found: dict[int, bytes] = {}
    copy = record.cold
    assert copy is not None
    for part in range(len(copy.part_starts)):
        data, _ = objects.get(copy.name_of(part), (b"", 0.0))
        start, stop, crc = index_bounds(data[-FOOTER_BYTES:], len(data))
        index = read_index(data[start:stop], crc)
        for number in range(len(index)):
            begin, end = index.offsets[number : number + 2]
            columns = decode_block(index, number, data[begin:end])
            found |= {n: bytes(payload) for n, payload, _ in columns.rows()}
    return found
