"""Reads pages of a ledger, on threads beside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..index.holdings import Overhead
from ..index.index import Index
from ..index.ledger_state import LedgerState
from ..index.places import FrameLocation
from ..log.format import RECORD_HEADER
from ..log_context import thread_of
from ..wire.columns import ID_BYTES, LENGTH_BYTES
from ..wire.messages import EntryRange, Holding, HoldingsRequest, ReadRequest
from .frames import SegmentFiles
from .reading import EntryPage, read_page

log = logging.getLogger(__name__)

LOOKS_MAX = 16
"""Maximum look-ups of a damaged page while compaction keeps moving frames."""

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
        """Reads a page; looks it up again if compaction may have moved a damaged frame meanwhile."""
        before, now = None, await self._read_once(request)
        looks = 1
        # A second look-up may find another frame damaged because it was moved just now: repeat until two agree.
        while now[1].damaged and now != before and looks < LOOKS_MAX:
            before, now = now, await self._read_once(request)
            looks += 1
        page = now[1]
        if await self._may_deny(request.ledger_id, request.first_entry, page):
            return page
        return _unsure(request.first_entry, page)

    async def holdings(self, request: HoldingsRequest, state: LedgerState) -> tuple[tuple[Holding, ...], int]:
        """Returns the ledger's extents by the index, and the entry up to which they are complete."""
        asked = request.ledger_id, request.first_entry, request.last_entry
        recent = self._index.recent_holding(*asked)

        def look() -> tuple[tuple[Holding, ...], int]:
            return self._index.holdings(*asked, recent, request.step_bytes, _overhead_of(state))

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _may_deny(self, ledger_id: int, first_entry: int, page: EntryPage) -> bool:
        """Whether the page's missing entries may be denied: checks, once per process, that no frames are lost."""
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
        """Waits for reads under way, and closes files."""
        self._threads.shutdown()
        self._files.close()


def _unsure(first_entry: int, page: EntryPage) -> EntryPage:
    return replace(page, damaged=(EntryRange(first_entry, page.covered_through),))


def _overhead_of(state: LedgerState) -> Overhead:
    """Record overhead of a ledger. Digests of entries are as wide as the last-add-confirmed's."""
    digest_bytes = len(state.last_add_confirmed.digest) if state.last_add_confirmed else 0
    frame_bytes = RECORD_HEADER.size + digest_bytes + len(state.verifier or b"")
    return Overhead(frame_bytes, ID_BYTES + LENGTH_BYTES + digest_bytes)
