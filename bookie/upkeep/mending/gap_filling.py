"""Fills gaps of one ledger from the other replicas, and removes unreadable frames from the index.

This happens in the following order, so that after a crash at any point the bookie has at least the entries that it had
before:

1. Missing entries are fetched and stored, synced.
2. An unreadable frame is removed from the index once every entry of its span that is placed here has been looked for
and is stored elsewhere in the log. Until then, reads in its span get an I/O error, never "no such entry" (rule R6).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import NoReturn

from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ...errors import DiskIsFull
from ...index.frame_locations import FrameLocation
from ...log.format import BookieLogRecord, RecordKind
from ...storage.bookie import Bookie
from ...wire.columnar_entries import FRAME_BYTES_MAX, FRAME_ENTRIES_MAX, Columns
from ...wire.messages import EntryRange
from ..collecting.note_updates import keep_notes
from ..inventory.entry_ranges import contains, overlap
from ..inventory.inventory import Inventory, span_of
from ..inventory.placed_entries import ENTRY_MAX, Part, PlacedEntries
from ..repair_client import Peers, PeersFailed
from ..reports import RepairProgress, Tally

STORE_BYTES = 4 * 1024 * 1024
"""Approximate number of bytes stored at once."""

FAILURES_MAX = 16
"""After this many entries that no replica returned, the ledger is postponed, because its bookies may be down."""

HOLDS_ANOTHER = (
    "another ledger is stored here under this id and is kept, because the metadata was restored from an older copy; "
    "give the position to another bookie"
)

NOT_CLOSED = (
    "the ledger is not closed, so no other bookie returns its entries: repair it again once it is closed; if its "
    "writer is gone, close it with `bookledger ledger recover`"
)


class _GivenUp(Exception):
    """Skips the rest of the ledger for now."""


class Mender:
    """Repairs the ledgers of one bookie. Callers must hold the upkeep lock."""

    def __init__(self, bookie: Bookie, peers: Peers, inventory: Inventory, pace: RateLimit) -> None:
        self._bookie = bookie
        self._peers = peers
        self._pace = pace
        self._inventory = inventory
        self.progress = RepairProgress()

    async def fill(
        self,
        record: LedgerRecord,
        parts: Iterable[Part],
        tally: Tally,
        *,
        without: BookieRef,
        examined: Sequence[EntryRange] = (),
        unreadable: Iterable[FrameLocation] = (),
        verify: bool = True,
    ) -> None:
        """Reads every frame that may hold entries of these parts, and fetches entries that are in none of these frames.

        Without `verify`, the index is trusted for frames without holes.

        Entries that could not be fetched are recorded in the tally. `parts` are in ascending order, and contain
        everything within `examined` that is placed here. Unreadable frames within `examined`, and those in
        `unreadable`, are removed from the index; the removal is committed when the call returns. Raises DiskIsFull;
        entries stored before the error remain.
        """
        # Frames of another ledger with this id do not fill gaps, and no entries may be stored alongside them.
        if self._bookie.holds_another(record):
            tally.fail(HOLDS_ANOTHER)
            return
        self._bookie.learn(record)
        bad = {place.position: place for place in unreadable}
        try:
            for share, asked in parts:
                windows = self._inventory.windows(record.ledger_id, share, asked, verify=verify)
                async with aclosing(windows):
                    async for window in windows:
                        bad.update((place.position, place) for place in window.unreadable)
                        for gap in window.gaps:
                            await self._fetch(record, share, gap, tally, without)
        except _GivenUp:
            pass
        await self._remove(record.ledger_id, bad.values(), tally, examined)

    async def keep_notes(self, record: LedgerRecord, me: BookieRef) -> None:
        """Stores the record's notes for a ledger whose entries were stored here."""
        await keep_notes(self._bookie, record, me)

    # --- fetching ---------------------------------------------------------------------------

    async def _fetch(
        self, record: LedgerRecord, share: PlacedEntries, gap: EntryRange, tally: Tally, without: BookieRef
    ) -> None:
        """Fetches all entries of the gap that other replicas have."""
        if not record.is_closed:
            self._give_up(tally, gap.first_entry, NOT_CLOSED)
        at = gap.first_entry
        while at <= gap.last_entry:
            try:
                await self._copy(record, share, EntryRange(at, gap.last_entry), tally, without)
                return
            except PeersFailed as failed:
                at = self._next_after(failed, share, at, tally)

    async def _copy(
        self, record: LedgerRecord, share: PlacedEntries, gap: EntryRange, tally: Tally, without: BookieRef
    ) -> None:
        pages = self._peers.entries(record, gap.first_entry, gap.last_entry, without=without)
        at = gap.first_entry
        try:
            async for page in pages:
                assert page.first_entry == at and page.last_entry == at + len(page) - 1 <= gap.last_entry
                at = page.last_entry + 1
                await self._pace.keep(page.size_bytes)
                await self._store(record, page.where(share.holds) if share.is_striped else page, tally)
        finally:
            if isinstance(pages, AsyncGenerator):
                await pages.aclose()
        assert at == gap.last_entry + 1

    def _next_after(self, failed: PeersFailed, share: PlacedEntries, at: int, tally: Tally) -> int:
        """Returns the entry at which to continue after an entry that no replica returned."""
        tally.failures += 1
        entry_id = failed.entry_id
        if entry_id is None or tally.failures == FAILURES_MAX:
            self._give_up(tally, at if entry_id is None else entry_id, str(failed))
        if share.holds(
            entry_id
        ):  # if not, the entry is placed only on other bookies, between entries placed here
            tally.fail(str(failed), EntryRange(entry_id, entry_id))
        return share.first_from(entry_id + 1)

    def _give_up(self, tally: Tally, first_entry: int, why: str) -> NoReturn:
        tally.fail(why, EntryRange(first_entry, ENTRY_MAX))
        raise _GivenUp

    # --- storing ----------------------------------------------------------------------------

    async def _store(self, record: LedgerRecord, columns: Columns, tally: Tally) -> None:
        """Durably stores entries."""
        batch: list[BookieLogRecord] = []
        size = 0
        for frame in frames_of(columns):
            batch.append(_entries_of(record, frame))
            size += frame.size_bytes
            if size >= STORE_BYTES:
                await self._store_batch(batch)
                batch, size = [], 0
        await self._store_batch(batch)
        for counted in (tally, self.progress):
            counted.entries += len(columns)
            counted.bytes += columns.size_bytes

    async def _store_batch(self, batch: Sequence[BookieLogRecord]) -> None:
        await self._bookie.intake.room()
        # The last free space of a nearly full disk is reserved for requests that cannot wait (rule B4).
        if self._bookie.space.why_read_only:
            raise DiskIsFull(self._bookie.space.why_read_only)
        await self._bookie.store(batch)

    async def _remove(
        self, ledger_id: int, bad: Iterable[FrameLocation], tally: Tally, examined: Sequence[EntryRange]
    ) -> None:
        gone = [place for place in bad if _is_replaced(span_of(place), tally.lacking, examined)]
        for place in gone:
            self._bookie.index.remove(ledger_id, place)
        if gone:
            await self._bookie.checkpoint()
        tally.frames_removed += len(gone)


def _is_replaced(span: EntryRange, lacking: Sequence[EntryRange], examined: Sequence[EntryRange]) -> bool:
    return any(contains(whole, span) for whole in examined) and not any(overlap(span, gap) for gap in lacking)


def _entries_of(record: LedgerRecord, frame: Columns) -> BookieLogRecord:
    return BookieLogRecord(
        RecordKind.ENTRIES, record.ledger_id, frame, verifier=record.verifier, identity=record.identity
    )


def frames_of(columns: Columns) -> Iterator[Columns]:
    """Splits entries into frames as large as a client's."""
    while len(columns):
        frame = columns.cut(0, min(len(columns), FRAME_ENTRIES_MAX)).start_of(FRAME_BYTES_MAX)
        yield frame
        columns = columns.cut(len(frame), len(columns))
