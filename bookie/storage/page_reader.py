"""Reads pages of a ledger, on threads outside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..index.frame_locations import FrameLocation
from ..index.holdings import Overhead
from ..index.index import Index
from ..index.local_ledger_state import LocalLedgerState
from ..log.format import RECORD_HEADER
from ..log_context import thread_of
from ..wire.columnar_entries import ENTRY_BYTES_MAX, ID_BYTES, LENGTH_BYTES, Columns, merge
from ..wire.messages import EntryRange, Holding, HoldingsRequest, ReadRequest
from .stored_frames import SegmentFiles, UnreadableFrame, read_frame

# Reads one page of entries: takes the locations of frames, and returns columns.
#
# A frame's record is read completely and its checksum verified before any of its entries is served. A record that
# cannot be read or verified makes its entry range *damaged*, never absent (rule R6).

log = logging.getLogger(__name__)

PAGE_BYTES_MAX = ENTRY_BYTES_MAX
"""Maximum size of a page in bytes, including all its columns, regardless of the request, so that a page always fits
into a message. An entry larger than the space left in a page gets a page of its own."""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries in the range [first requested, covered_through]; an entry that is in neither `columns` nor `damaged` is
    absent.

    `why_unread`: the reason why the first range in `damaged` could not be read; "" if it was read but is damaged.
    """

    columns: Columns
    covered_through: int
    damaged: tuple[EntryRange, ...]
    why_unread: str = ""


def read_page(
    files: SegmentFiles,
    places: Sequence[FrameLocation],
    ledger_id: int,
    first_entry: int,
    last_entry: int,
    bytes_max: int,
    *,
    whole_frames: bool = False,
) -> EntryPage:
    """Reads the entries in [first_entry, last_entry] from `places`, which lists all frames that may hold them, in order
    (`Index.page`).

    Returns about `bytes_max` bytes, but at least all frames of the first entry. With `whole_frames`, ends with the last
    frame that fits.
    """
    bytes_max = min(bytes_max, PAGE_BYTES_MAX)
    parts: list[Columns] = []
    damaged: list[EntryRange] = []
    covered, taken, why_unread = last_entry, 0, ""
    for place in places:
        next_bytes = place.size if whole_frames and taken else 1
        if taken + next_bytes > bytes_max and place.first_entry > first_entry:
            covered = min(last_entry, place.first_entry - 1)
            break
        if place.last_entry < first_entry:
            continue
        columns = read_frame(files, ledger_id, place)
        if isinstance(columns, UnreadableFrame):
            log.error("damaged record in %s" if columns.is_damaged else "cannot read %s", columns.why)
            if not (damaged or columns.is_damaged):
                why_unread = columns.why
            damaged.append(EntryRange(place.first_entry, place.last_entry))
            continue
        part = columns.between(first_entry, last_entry)
        parts.append(part)
        taken += part.size_bytes
    found = merge(parts).between(first_entry, covered)
    if found.size_bytes > PAGE_BYTES_MAX:  # the frames are large, or contain many tiny entries
        found = found.start_of(PAGE_BYTES_MAX)
        covered = found.last_entry
    return EntryPage(found, covered, tuple(damaged), why_unread)


LOOKS_MAX = 16
"""Maximum number of look-ups for a damaged page while compaction keeps moving frames."""

WHOLE_MAX = 100_000
"""Maximum number of ledgers remembered as having all their frames in the index."""


class PageReader:
    """Looks pages up in the index and reads them. `read` belongs to the event loop."""

    def __init__(self, index: Index, files: SegmentFiles, threads: int) -> None:
        self._index = index
        self._files = files
        self._whole: OrderedDict[int, None] = OrderedDict()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="bookie-read", initializer=thread_of())

    async def read(self, request: ReadRequest) -> EntryPage:
        """Reads a page; looks it up again if compaction may have moved a damaged frame in the meantime."""
        before, now = None, await self._read_once(request)
        looks = 1
        # A second look-up may find another frame damaged because it has just been moved: repeat until two
        # look-ups agree.
        while now[1].damaged and now != before and looks < LOOKS_MAX:
            before, now = now, await self._read_once(request)
            looks += 1
        page = now[1]
        if await self._may_deny(request.ledger_id, request.first_entry, page):
            return page
        return _unsure(request.first_entry, page)

    async def holdings(
        self, request: HoldingsRequest, state: LocalLedgerState
    ) -> tuple[tuple[Holding, ...], int]:
        """Returns the ledger's extents according to the index, and the entry through which they are complete."""
        asked = request.ledger_id, request.first_entry, request.last_entry
        recent = self._index.recent_holding(*asked)

        def look() -> tuple[tuple[Holding, ...], int]:
            return self._index.holdings(*asked, recent, request.step_bytes, _overhead_of(state))

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _may_deny(self, ledger_id: int, first_entry: int, page: EntryPage) -> bool:
        """Returns whether the bookie may report the page's missing entries as nonexistent. Checks once per ledger and
        process that the index has lost no frames."""
        has_all = len(page.columns) == page.covered_through - first_entry + 1
        if has_all or ledger_id in self._whole:
            return True
        is_whole = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._index.is_whole, ledger_id
        )
        if is_whole:
            self._whole[ledger_id] = None
            if len(self._whole) > WHOLE_MAX:
                self._whole.popitem(last=False)
        else:
            log.error(
                "the index has lost frames of ledger %d: stop the bookie, and rebuild the index",
                ledger_id,
                extra={"ledger": ledger_id},
            )
        return is_whole

    async def _read_once(self, request: ReadRequest) -> tuple[list[FrameLocation], EntryPage]:
        ledger_id, first, bytes_max = request.ledger_id, request.first_entry, request.bytes_max
        recent = self._index.recent_holding(ledger_id, first, request.last_entry)

        def read() -> tuple[list[FrameLocation], EntryPage]:
            places, through = self._index.page(ledger_id, first, request.last_entry, recent, bytes_max)
            asked = places, ledger_id, first, through, bytes_max
            return places, read_page(self._files, *asked, whole_frames=request.whole_frames)

        return await asyncio.get_running_loop().run_in_executor(self._threads, read)

    def close(self) -> None:
        """Waits for reads in progress, and closes files."""
        self._threads.shutdown()
        self._files.close()


def _unsure(first_entry: int, page: EntryPage) -> EntryPage:
    return replace(page, damaged=(EntryRange(first_entry, page.covered_through),))


def _overhead_of(state: LocalLedgerState) -> Overhead:
    """Returns the ledger's record overhead. Entry digests are as wide as the digest of the last-add-confirmed."""
    digest_bytes = len(state.last_add_confirmed.digest) if state.last_add_confirmed else 0
    frame_bytes = RECORD_HEADER.size + digest_bytes + len(state.verifier or b"")
    return Overhead(frame_bytes, ID_BYTES + LENGTH_BYTES + digest_bytes)
