"""Reads a range of entries: scans it if one bookie has the entire range, otherwise prefetches windows in parallel.

Read-ahead is bounded in bytes. A window is a part of the range that should amount to about one page. However large its
entries turn out to be, at most one page of the window is in flight or waiting to be taken: the remainder is fetched
when its first page has been taken. A reader therefore holds `windows × one page`, whatever the sizes are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from bookie.wire import ENTRY_BYTES_MAX, Columns
from metadata.records.ledger_record import BookieRef

from ..errors import EntryUnreadable
from ..tasks import end_tasks
from .ledger_view import LedgerView
from .page_fetch import PageFetcher
from .scan_read import Scanner, ScanRange

WINDOW_ENTRIES_MAX = 64 * 1024
"""Maximum number of entries in one read-ahead window."""

FIRST_WINDOW_ENTRIES = 256
"""Number of entries in a window while the size of entries is unknown."""

WINDOWS_TOO_WIDE = 2
"""If the remainder of a window would now be divided into more than this number of windows, because entries turned out
to be larger than expected, all windows are replaced."""

ENTRY_COLUMN_BYTES = 16
"""Minimum size of an entry in bytes in addition to its payload: id, length and digest."""


@dataclass(frozen=True, slots=True)
class _Window:
    last_entry: int
    page: asyncio.Task[Columns]


class RangeRead:
    """Reads ranges of one ledger; adapts to the size of the ledger's entries."""

    def __init__(self, view: LedgerView, fetcher: PageFetcher) -> None:
        self._view = view
        self._fetcher = fetcher
        self._scanner = Scanner(view, fetcher.without)
        self._page_bytes = view.cluster.config.page_bytes
        self._windows_max = _windows_max(view)
        self._entry_bytes = _average_entry_bytes(view)

    async def columns(self, first_entry: int, last_entry: int) -> AsyncGenerator[Columns, None]:
        """Yields the entries of the range, in order, in pages that are never empty.

        Raises as `PageFetcher.fetch` does, after yielding every entry before the unreadable one.
        """
        next_entry = first_entry
        refused: set[BookieRef] = set()  # bookies whose scans returned none of the next entries
        while next_entry <= last_entry:
            began_at, width, scan = next_entry, self._window_entries(), None
            if self._view.record.has_no_ensembles:
                source = self._from_object_store(next_entry, last_entry)
            elif (scan := self._scanner.scan_from(next_entry, last_entry, width, refused)) is None:
                through = self._scanner.unscanned_through(next_entry, last_entry, width)
                source = self._by_windows(next_entry, through)
            else:
                source = self._scanned(scan)
            async with aclosing(source) as pages:
                async for page in pages:
                    next_entry = page.last_entry + 1
                    yield page
            if next_entry > began_at:
                refused.clear()
            elif scan is not None:
                refused.add(scan.bookie)

    async def _from_object_store(self, first_entry: int, last_entry: int) -> AsyncGenerator[Columns, None]:
        """Yields pages from the object store. Ends early if the ledger has been recalled or copied elsewhere, in which
        case the view has the new record."""
        before = self._view.record
        try:
            async with aclosing(self._view.in_object_store().pages(first_entry, last_entry)) as pages:
                async for page in pages:
                    yield page
        except EntryUnreadable:
            await self._view.refresh()
            now = self._view.record
            if (now.cold, now.fragments) == (before.cold, before.fragments):
                raise

    async def _scanned(self, scan: ScanRange) -> AsyncGenerator[Columns, None]:
        async with aclosing(self._scanner.pages(scan)) as pages:
            async for page in pages:
                self._learn(page)
                yield page

    async def _by_windows(self, first_entry: int, last_entry: int) -> AsyncGenerator[Columns, None]:
        windows: deque[_Window] = deque()
        next_entry = first_entry
        try:
            while windows or next_entry <= last_entry:
                next_entry = self._read_ahead(windows, next_entry, last_entry)
                page = await windows[0].page
                next_entry = await self._take(windows, page, next_entry)
                next_entry = self._read_ahead(windows, next_entry, last_entry)
                yield page
        finally:
            await end_tasks([window.page for window in windows])

    def _read_ahead(self, windows: deque[_Window], next_entry: int, last_entry: int) -> int:
        """Starts as many windows as allowed; returns the entry after the last of them."""
        while next_entry <= last_entry and len(windows) < self._windows_max:
            window_last = min(last_entry, self._window_end(next_entry))
            windows.append(self._window(next_entry, window_last))
            next_entry = window_last + 1
        return next_entry

    async def _take(self, windows: deque[_Window], page: Columns, next_entry: int) -> int:
        """Continues with the remainder of the window whose page arrived; returns the entry from which to read ahead."""
        window = windows.popleft()
        self._learn(page)
        rest_entries = window.last_entry - page.last_entry
        if rest_entries > WINDOWS_TOO_WIDE * self._window_entries():
            # All windows are far too wide for entries of this size, and would therefore be read one after the other.
            await end_tasks([wide.page for wide in windows])
            windows.clear()
            return page.last_entry + 1
        if rest_entries > 0:
            windows.appendleft(self._window(page.last_entry + 1, window.last_entry))
        return next_entry

    def _window(self, first_entry: int, last_entry: int) -> _Window:
        return _Window(last_entry, asyncio.create_task(self._fetcher.fetch(first_entry, last_entry)))

    def _learn(self, page: Columns) -> None:
        """Adapts to larger entries at once, but to smaller ones gradually, because a window that is too narrow costs
        little."""
        self._entry_bytes = max(1, page.size_bytes // len(page), self._entry_bytes // 2)

    def _window_entries(self) -> int:
        if not self._entry_bytes:
            return FIRST_WINDOW_ENTRIES
        return min(WINDOW_ENTRIES_MAX, -(-self._page_bytes // self._entry_bytes))

    def _window_end(self, first_entry: int) -> int:
        """Returns the end of a window: about one page, within one fragment."""
        last = first_entry + self._window_entries() - 1
        last_there = self._view.last_entry_of_fragment(first_entry)
        return last if last_there is None else min(last, last_there)


def _windows_max(view: LedgerView) -> int:
    """Returns the number of windows whose pages fit in `read_ahead_bytes_max` even at maximum page size."""
    config, shape = view.cluster.config, view.striping.shape
    bookies_asked = -(-shape.ensemble_size // shape.write_quorum)
    affordable = config.read_ahead_bytes_max // (bookies_asked * ENTRY_BYTES_MAX)
    return max(1, min(config.read_ahead_pages, affordable))


def _average_entry_bytes(view: LedgerView) -> int:
    """Returns the average size of a closed ledger's entries in bytes; 0 for an open ledger, for which it is unknown."""
    last, length = view.record.last_entry, view.record.length_bytes
    if last is None or length is None or last < 0:
        return 0
    return ENTRY_COLUMN_BYTES + length // (last + 1)
