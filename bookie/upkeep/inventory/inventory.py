"""Finds the entries of a ledger that are on this bookie's disk, a bounded part of the ledger at a time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord

from ...index.frame_locations import FrameLocation
from ...storage.bookie import Bookie
from ...storage.stored_frames import UnreadableFrame, read_frame
from ...wire.columnar_entries import Columns
from ...wire.messages import EntryRange
from ..threads import in_thread
from .entry_ranges import Ids, missing, overlap
from .placed_entries import ENTRY_MAX, PlacedEntries, parts, shares

log = logging.getLogger(__name__)

WINDOW_ENTRIES = 64 * 1024
"""Maximum number of entries checked at once."""

BATCH_BYTES = 1024 * 1024
"""Approximate bytes read at once."""

FRAMES_PER_WINDOW = 4096
"""Maximum number of frames checked at once, unless more of them contain the same entry."""


@dataclass(frozen=True, slots=True)
class InventoryWindow:
    """Findings for a range of entries: gaps (missing entries that are placed here), and unreadable frames."""

    gaps: tuple[EntryRange, ...]
    unreadable: tuple[FrameLocation, ...]


class Inventory:
    """Checks one bookie's entries at a limited rate."""

    def __init__(self, bookie: Bookie, pace: RateLimit) -> None:
        self._bookie = bookie
        self._pace = pace

    async def windows(
        self, ledger_id: int, share: PlacedEntries, asked: EntryRange, *, verify: bool
    ) -> AsyncGenerator[InventoryWindow, None]:
        """Yields findings for the entries of `asked`, a part of the share's range, from the first to the last.

        With `verify`, each frame is read. Otherwise the index is trusted for frames without holes; frames with holes
        are read for their ids, and frames that could not be read the last time are tried once more.
        """
        at = asked.first_entry
        while at <= asked.last_entry:
            end = min(asked.last_entry, at + WINDOW_ENTRIES - 1)
            places, through = await self._places(ledger_id, at, end)
            held, unreadable = await self._held(ledger_id, places, EntryRange(at, through), verify=verify)
            yield InventoryWindow(tuple(missing(share, at, through, held)), unreadable)
            at = through + 1

    async def missing_of(self, part: LedgerRecord, bookie: BookieRef, fragment: Fragment) -> list[EntryRange]:
        """Returns the gaps on this bookie among the entries that one fragment of a closed ledger places at `bookie`."""
        first = fragment.first_entry
        last = next(end for one, end in part.spans() if one.first_entry == first)
        assert last is not None
        return await self.missing(part, bookie, EntryRange(first, last), verify=True)

    async def missing(
        self, record: LedgerRecord, bookie: BookieRef, within: EntryRange, *, verify: bool
    ) -> list[EntryRange]:
        """Returns the gaps on this bookie among the entries that the metadata places at `bookie`. Entries of another
        ledger with the same id do not fill gaps (W8)."""
        assert record.is_closed or within.last_entry < ENTRY_MAX, "an open ledger has no end"
        placed = parts(record, bookie, [within])
        if self._bookie.holds_another(record):
            return [part for _, part in placed]
        found: list[EntryRange] = []
        for share, part in placed:
            windows = self.windows(record.ledger_id, share, part, verify=verify)
            async with aclosing(windows):
                async for window in windows:
                    found += window.gaps
        return found

    async def unreadable(self, ledger_id: int, places: Iterable[FrameLocation]) -> list[FrameLocation]:
        """Returns those of these frames that cannot be read or differ from the index; logs each one with the reason."""
        bad: list[FrameLocation] = []
        for batch in _batches(places):
            await self._pace.keep(sum(place.size for place in batch))
            for place, found in zip(batch, await in_thread(self._read, ledger_id, batch), strict=True):
                if isinstance(found, UnreadableFrame):
                    entries = (place.first_entry, place.last_entry)
                    log.error(
                        "cannot read entries %d to %d of ledger %d: %s",
                        *entries,
                        ledger_id,
                        found.why,
                        extra={"ledger": ledger_id},
                    )
                    bad.append(place)
        return bad

    async def _places(self, ledger_id: int, first: int, last: int) -> tuple[list[FrameLocation], int]:
        """Returns all frames that may hold entries of [first, n], together with n, which is at most `last`."""
        limit = FRAMES_PER_WINDOW
        while True:
            index = self._bookie.index
            recent = index.recent_holding(ledger_id, first, last)
            places = await in_thread(index.holding, ledger_id, first, last, recent, limit)
            through = last if len(places) < limit else places[-1].first_entry - 1
            if through >= first:
                return places, through
            limit *= 2

    async def _held(
        self, ledger_id: int, places: Sequence[FrameLocation], window: EntryRange, *, verify: bool
    ) -> tuple[list[Ids], tuple[FrameLocation, ...]]:
        doubted = {*places} if verify else {p for p in places if p.position in self._bookie.files.doubted}
        believed = [place for place in places if is_solid(place) and place not in doubted]
        held: list[Ids] = [_clipped(place, window) for place in believed]
        unreadable: list[FrameLocation] = []
        to_read = [place for place in places if not is_solid(place) or place in doubted]
        for batch in _batches(to_read):
            await self._pace.keep(sum(place.size for place in batch))
            for place, found in zip(batch, await in_thread(self._read, ledger_id, batch), strict=True):
                if isinstance(found, UnreadableFrame):
                    unreadable.append(place)
                else:
                    held.append(found)
        return held, tuple(unreadable)

    def _read(self, ledger_id: int, places: Sequence[FrameLocation]) -> list[Ids | UnreadableFrame]:
        """Returns the ids in each frame, or the reason why it cannot be read."""
        found = (read_frame(self._bookie.files, ledger_id, place) for place in places)
        return [columns.ids if isinstance(columns, Columns) else columns for columns in found]


def is_solid(place: FrameLocation) -> bool:
    """Returns whether the frame holds every entry from its first to its last one."""
    return place.last_entry - place.first_entry == place.entries - 1


def span_of(place: FrameLocation) -> EntryRange:
    """Returns the entry range of a frame."""
    return EntryRange(place.first_entry, place.last_entry)


def frames_elsewhere(bookie: Bookie, record: LedgerRecord, me: BookieRef) -> Iterator[FrameLocation]:
    """Yields this bookie's frames of the ledger that contain no entries placed here by the metadata."""
    ours = [EntryRange(share.first_entry, share.last_entry) for share in shares(record, me)]
    for _, place in bookie.index.places(record.ledger_id):
        if not any(overlap(span_of(place), one) for one in ours):
            yield place


def _clipped(place: FrameLocation, window: EntryRange) -> range:
    return range(max(place.first_entry, window.first_entry), min(place.last_entry, window.last_entry) + 1)


def _batches(places: Iterable[FrameLocation]) -> Iterator[list[FrameLocation]]:
    """Yields the places, in batches of about BATCH_BYTES of records."""
    batch: list[FrameLocation] = []
    size = 0
    for place in places:
        batch.append(place)
        size += place.size
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
