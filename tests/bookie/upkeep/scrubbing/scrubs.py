"""A log that scrubs go over, and what they say of it."""

from __future__ import annotations

from dataclasses import asdict

from bookie.log import segment_files
from bookie.log.format import BookieLogRecord, RecordKind
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookie.upkeep.reports import ScrubReport
from bookie.wire.messages import Status
from metadata.records.ledger_record import LedgerRecord, Shape
from tests.bookie.bookies import append
from tests.bookie.entries import frame_of
from tests.bookie.upkeep.replicas import (
    Mended,
    closed_ledger,
    placed,
)

LAST = 59
WHOLE = Shape(3, 3, 2)
STRIPED = Shape(3, 2, 2)


async def filled(world: Mended, shape: Shape, *ledger_ids: int, per_frame: int = 5) -> list[LedgerRecord]:
    """Closed ledgers with everything here that is placed here, frame by frame round the ledgers."""
    records = [await closed_ledger(world.ledgers, n, shape, LAST) for n in ledger_ids]
    ours = placed(records[0])
    for start in range(0, len(ours), per_frame):
        for ledger_id in ledger_ids:
            frame = frame_of(ledger_id, ours[start : start + per_frame])
            assert await append(world.bookie, frame) == [Status.OK]
    await world.bookie.checkpoint()
    return records


def kinds(world: Mended, *wanted: RecordKind) -> list[BookieLogRecord]:
    """The records of these kinds that can be read anywhere in the log."""
    found = []
    for number in segment_files.numbers(world.bookie.disk):
        found += [one.record for one in walk(world.bookie.disk, number) if isinstance(one, Found)]
    return [record for record in found if record.kind in wanted]


def dealt_with(report: ScrubReport) -> dict[str, object]:
    """What the report says of damage; nothing for a clean log."""
    return {
        name: value
        for name, value in asdict(report).items()
        if value and name not in ("segments", "bytes_read", "records")
    }
