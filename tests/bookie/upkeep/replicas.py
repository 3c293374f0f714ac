"""A bookie to be mended, the metadata, and the other replicas of its ledgers in a dictionary."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookie.disk.disk import Disk
from bookie.index.frame_locations import FrameLocation
from bookie.log.format import place_of
from bookie.log.segment_files import name_of
from bookie.storage.bookie import Bookie
from bookie.upkeep.healing.local_check import LocalCheck
from bookie.upkeep.inventory.inventory import Inventory
from bookie.upkeep.mending.limbo import enter_limbo
from bookie.upkeep.mending.repair import Repair
from bookie.upkeep.repair_client import PeersFailed
from bookie.upkeep.scrubbing.scrubber import Scrubber
from bookie.upkeep_config import UpkeepConfig
from bookie.wire.columnar_entries import Columns
from bookie.wire.messages import EntryRange, Frame, ReadRequest, Status
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import BookieRef, Ensemble, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import append, bookie_on
from tests.bookie.entries import columns_of, entries_of, entry_of
from tests.bookie.logs import INCARNATION
from tests.support.present import there

ME = BookieRef("b0", INCARNATION)
BK1, BK2, BK3, BK4, BK5 = (BookieRef(f"b{n}", f"i{n}") for n in range(1, 6))
AT_ONCE = 1e12
WITHOUT_ME_AT_LAST = (Fragment(0, (ME, BK1, BK2)), Fragment(40, (BK1, BK2, BK3)))
SHAPES = [Shape(3, 3, 2), Shape(1, 1, 1), Shape(3, 2, 2), Shape(4, 2, 1), Shape(5, 3, 2)]


def ensemble_of(shape: Shape, position: int = 0) -> Ensemble:
    """An ensemble of this shape with ME in this position."""
    others = [BK1, BK2, BK3, BK4][: shape.ensemble_size - 1]
    return (*others[:position], ME, *others[position:])


def placed(record: LedgerRecord, bookie: BookieRef = ME) -> list[int]:
    """The entries that the metadata places at a bookie: the rule, one entry at a time."""
    assert record.last_entry is not None
    size, writes = record.shape.ensemble_size, record.shape.write_quorum
    found = []
    for entry_id in range(record.last_entry + 1):
        ensemble = record.fragment_of(entry_id).ensemble
        if bookie in ensemble and (ensemble.index(bookie) - entry_id) % size < writes:
            found.append(entry_id)
    return found


@dataclass
class DictionaryPeers:
    """The other replicas hold every entry that `lost` does not name. See `bookie.upkeep.repair_client.Peers`."""

    ledgers: LedgerStore
    lost: dict[int, set[int]] = field(default_factory=dict)
    payload_bytes: int = 20
    page_entries: int = 7
    why: str = "bookie b1: its copy is damaged"
    away: bool = False
    """The metadata does not answer them, so it is no entry that fails."""
    asked: list[tuple[int, int, int, BookieRef]] = field(default_factory=list)
    recovered: list[int] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """Where recovery finds that a ledger ends; else nothing of it was confirmed."""
    unreachable: dict[BookieRef, str] = field(default_factory=dict)

    async def entries(
        self, record: LedgerRecord, first_entry: int, last_entry: int, *, without: BookieRef
    ) -> AsyncGenerator[Columns, None]:
        assert record.last_entry is not None
        assert 0 <= first_entry <= last_entry <= record.last_entry
        self.asked.append((record.ledger_id, first_entry, last_entry, without))
        if self.away:
            raise PeersFailed(record.ledger_id, "cannot look up the ledger", "try again later")
        lost = [n for n in self.lost.get(record.ledger_id, ()) if first_entry <= n <= last_entry]
        end = min(lost, default=last_entry + 1)
        for start in range(first_entry, end, self.page_entries):
            await asyncio.sleep(0)
            ids = range(start, min(start + self.page_entries, end))
            yield columns_of([entry_of(record.ledger_id, n, self.payload_bytes) for n in ids])
        if lost:
            what = f"no other replica gave entry {end} of ledger {record.ledger_id}"
            raise PeersFailed(record.ledger_id, what, self.why, entry_id=end)

    async def recover(self, ledger_id: int) -> LedgerRecord | None:
        found = await self.ledgers.read(ledger_id)
        if found is None or found.record.is_closed:
            return None if found is None else found.record
        if found.record.verifier:
            raise PeersFailed(ledger_id, f"ledger {ledger_id} has a password", "have its owner close it")
        self.recovered.append(ledger_id)
        end = self.ends.get(ledger_id, -1)
        closed = found.record.closed(end, (end + 1) * self.payload_bytes)
        return (await self.ledgers.change(closed, found.version)).record

    async def why_unreachable(self, bookie: BookieRef) -> str:
        return self.unreachable.get(bookie, "")

    async def close(self) -> None:
        """Nothing to end."""


@dataclass
class Mended:
    """One bookie, and all it is mended with."""

    bookie: Bookie
    ledgers: LedgerStore
    peers: DictionaryPeers
    repair: Repair
    scrubber: Scrubber
    upkeep: asyncio.Lock

    async def read(self, ledger_id: int, first: int, last: int) -> tuple[list[int], set[int]]:
        """Ids of the entries that are given, each verified, and those said to be damaged."""
        given: list[int] = []
        damaged: set[int] = set()
        while first <= last:
            reply = await self.bookie.read(ReadRequest(INCARNATION, ledger_id, first, last, 1 << 20))
            assert reply.status is Status.OK
            for entry in entries_of(reply.columns):
                assert entry == entry_of(ledger_id, entry[0], self.peers.payload_bytes)
                given.append(entry[0])
            damaged |= ids_of(reply.damaged, reply.covered_through)
            first = reply.covered_through + 1
        return given, damaged

    async def limbo(self) -> None:
        """As after a loss of which nobody knows what it was."""
        await enter_limbo(self.bookie, self.ledgers, ME)

    def places(self, ledger_id: int) -> list[FrameLocation]:
        """Where the ledger's frames stood at the last checkpoint, in order."""
        return sorted(place for _, place in self.bookie.index.places(ledger_id))

    def is_in_limbo(self, ledger_id: int) -> bool:
        return self.bookie.states.peek(ledger_id).limbo


@asynccontextmanager
async def mended(
    directory: Path,
    ledgers: LedgerStore | None = None,
    disk: Disk | None = None,
    peers: DictionaryPeers | None = None,
    pace: RateLimit | None = None,
    **settings: Any,
) -> AsyncIterator[Mended]:
    """A bookie on this directory, with repair and scrubber."""
    ledgers = ledgers or LedgerStore(MemoryStore())
    async with bookie_on(directory, disk, **settings) as bookie:
        yield tools(bookie, ledgers, peers or DictionaryPeers(ledgers), pace)


def tools(
    bookie: Bookie, ledgers: LedgerStore, peers: DictionaryPeers, pace: RateLimit | None = None
) -> Mended:
    pace, upkeep = pace or RateLimit(AT_ONCE), asyncio.Lock()
    repair, inventory = Repair(bookie, ledgers, ME, peers, pace), Inventory(bookie, pace)
    check = LocalCheck(bookie, ledgers.store, ME, inventory, upkeep, UpkeepConfig(), time.time)
    scrubber = Scrubber(bookie, repair, upkeep, pace, check.look_again)
    return Mended(bookie, ledgers, peers, repair, scrubber, upkeep)


async def closed_ledger(
    ledgers: LedgerStore, ledger_id: int, shape: Shape, last_entry: int, *fragments: Fragment
) -> LedgerRecord:
    """A closed ledger of this shape, by default with ME in position 0 of its only fragment."""
    opened = await open_ledger(ledgers, ledger_id, shape, *fragments)
    found = there(await ledgers.read(ledger_id))
    return (await ledgers.change(opened.closed(last_entry, 0), found.version)).record


async def open_ledger(
    ledgers: LedgerStore, ledger_id: int, shape: Shape, *fragments: Fragment, verifier: bytes = b""
) -> LedgerRecord:
    made = LedgerRecord(ledger_id, shape, fragments or (Fragment(0, ensemble_of(shape)),), verifier=verifier)
    return (await ledgers.create(made)).record


async def hold(bookie: Bookie, ledger_id: int, *frames: Iterable[int], payload_bytes: int = 20) -> None:
    """Stores frames with these entries each, and has them in the index for good."""
    for ids in frames:
        entries = [entry_of(ledger_id, entry_id, payload_bytes) for entry_id in ids]
        assert await append(bookie, Frame(ledger_id, columns_of(entries))) == [Status.OK]
    await bookie.checkpoint()


def flip(log: Path, segment: int, offset: int, bit: int) -> None:
    """This bit of a segment is another on disk."""
    overwrite(log, segment, offset, bytes([(log / name_of(segment)).read_bytes()[offset] ^ 1 << bit]))


def flip_in(log: Path, place: FrameLocation, offset: int = 100) -> None:
    """One bit of this frame's record is another, by default in its columns."""
    segment, start = place_of(place.position)
    flip(log, segment, start + offset, 3)


def overwrite(log: Path, segment: int, offset: int, data: bytes) -> None:
    with open(log / name_of(segment), "r+b") as file:
        file.seek(offset)
        file.write(data)


def ids_of(ranges: Sequence[EntryRange], last: int) -> set[int]:
    return {n for one in ranges for n in range(one.first_entry, min(one.last_entry, last) + 1)}


def gaps(record: LedgerRecord, found: Iterable[EntryRange]) -> list[int]:
    """The single entries of gaps."""
    here = set(placed(record))
    return [n for one in found for n in range(one.first_entry, one.last_entry + 1) if n in here]
