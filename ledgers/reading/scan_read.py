"""Scans a range: one bookie that has the entire range streams it, page after page.

A scan only makes reading faster and decides nothing. Its pages are verified, and must contain exactly the next entries,
without a gap. If a page does not, or if the bookie fails or stays silent, the scan ends, and the rest of the range is
read from another bookie, or page by page (`range_read`), which asks every replica before it reports an entry as
unreadable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from bookie.wire import Columns, ReadReply, ScanRequest, Status
from metadata.records.ledger_record import BookieRef

from ..bookie_client import CannotScan
from ..errors import BookieUnavailable
from ..tasks import end_tasks, was_suspended
from .ledger_view import LedgerView

SCAN_BYTES = 256 * 1024 * 1024
"""Approximate number of bytes scanned from one bookie before the scan moves to another, to balance the load."""

PAGES_MIN = 1
"""A range of at most this number of pages is not scanned, but read page by page."""

PAGES_UNSCANNED = 64
"""Number of pages that are read one by one when no bookie can be scanned, before a scan is attempted again."""

PATIENCE_TIMES_MAX = 8
"""Maximum wait, in multiples of `speculative_read_seconds`, for a bookie that sends other data but not the expected
page."""


@dataclass(frozen=True, slots=True)
class ScanRange:
    """A range to scan from one bookie."""

    bookie: BookieRef
    first_entry: int
    last_entry: int


class Scanner:
    """Scans one ledger. `without`: this incarnation of a bookie is never asked."""

    def __init__(self, view: LedgerView, without: BookieRef | None) -> None:
        self._view = view
        self._without = without
        config = view.cluster.config
        self._page_bytes = config.page_bytes
        self._window_bytes = min(config.read_ahead_bytes_max, config.read_ahead_pages * config.page_bytes)
        self._patience_seconds = config.speculative_read_seconds or None

    @property
    def may_scan(self) -> bool:
        """Whether the ledger can be scanned: it must not be striped, so that one bookie has all of a fragment.

        With tracing, it is not scanned either, because each page is then read separately and has its own span.
        """
        return not self._view.striping.is_striped and self._view.cluster.traces is None

    def scan_from(
        self, first_entry: int, last_entry: int, page_entries: int, refused: Collection[BookieRef]
    ) -> ScanRange | None:
        """Plans the next scan, for pages of `page_entries`; None if it is not worthwhile, or no bookie is left."""
        if not self.may_scan:
            return None
        last = self._end_of_fragment(first_entry, last_entry)
        if not _is_worth_a_scan(last - first_entry, page_entries):
            return None
        view = self._view
        ensemble = view.record.fragment_of(first_entry).ensemble
        scan_entries = page_entries * max(1, SCAN_BYTES // self._page_bytes)
        turn = (view.ledger_id + first_entry // scan_entries) % len(ensemble)
        unwanted = {*refused, *view.cluster.slow_or_failed_lately(), self._without}
        for bookie in (*ensemble[turn:], *ensemble[:turn]):
            if bookie not in unwanted:
                return ScanRange(bookie, first_entry, min(last, first_entry + scan_entries - 1))
        return None

    def unscanned_through(self, first_entry: int, last_entry: int, page_entries: int) -> int:
        """Returns how far to read page by page after `scan_from` returned None, until the next attempt."""
        if not self.may_scan:
            return last_entry
        through = first_entry - 1
        while through < last_entry:
            end = self._end_of_fragment(through + 1, last_entry)
            if _is_worth_a_scan(end - through - 1, page_entries):
                break
            through = end
        if through >= first_entry:
            return through
        return min(last_entry, first_entry + page_entries * PAGES_UNSCANNED - 1)

    async def pages(self, scan: ScanRange) -> AsyncGenerator[Columns, None]:
        """Yields verified entries from the scan's first entry on, in order and without a gap. May end before the scan's
        last entry."""
        view, next_entry = self._view, scan.first_entry
        asked = scan.bookie.incarnation, view.ledger_id, scan.first_entry, scan.last_entry
        sizes = self._page_bytes, self._window_bytes
        request = ScanRequest(*asked, *sizes, view.credential(scan.bookie), view.identity)
        async with aclosing(view.cluster.bookies.scan(scan.bookie, request)) as replies:
            while next_entry <= scan.last_entry:
                with self._measure_page() as fetched:
                    page = await self._next(scan, replies, next_entry)
                    fetched += [page] if page is not None else []
                if page is None:
                    return
                next_entry = page.last_entry + 1
                yield page
                del page, fetched  # do not keep the page in memory while waiting for the next one

    async def _next(
        self, scan: ScanRange, replies: AsyncGenerator[ReadReply, None], first_entry: int
    ) -> Columns | None:
        """Waits for the next page; returns None if none arrives or it is invalid. Records failed and slow bookies."""
        coming = asyncio.ensure_future(anext(replies, None))
        try:
            if not await self._comes(coming, scan.bookie):
                self._view.cluster.note_slowness(scan.bookie)
                return None
            reply = coming.result()
        except CannotScan:
            return None
        except BookieUnavailable:
            self._view.cluster.note_failure(scan.bookie)
            return None
        finally:
            await end_tasks([coming])
        return None if reply is None else self._verified(reply, first_entry, scan.last_entry)

    async def _comes(self, coming: asyncio.Future[ReadReply | None], bookie: BookieRef) -> bool:
        """Waits for the page; returns False if the bookie is too slow.

        If the bookie sends other data in the meantime, it is busy with other pages, or this process is busy, so the
        bookie gets more time.
        """
        loop, patience = asyncio.get_running_loop(), self._patience_seconds
        for _ in range(PATIENCE_TIMES_MAX):
            began = loop.time()
            done, _ = await asyncio.wait([coming], timeout=patience)
            if done:
                return True
            is_heard = self._view.cluster.bookies.heard_at(bookie) > began
            if not is_heard and patience is not None and not was_suspended(began + patience):
                return False
        return False

    def _verified(self, reply: ReadReply, first_entry: int, last_entry: int) -> Columns | None:
        """Returns the entries from `first_entry` on, up to the first gap; None if there are none, or if the digest of
        any of them is wrong."""
        if reply.status is not Status.OK:
            return None
        columns = reply.columns.between(first_entry, last_entry).run_from(first_entry)
        digester = self._view.digester
        if not len(columns) or columns.digest_width != digester.width_bytes or digester.bad_entries(columns):
            return None
        return columns

    def _end_of_fragment(self, entry_id: int, last_entry: int) -> int:
        end = self._view.last_entry_of_fragment(entry_id)
        return last_entry if end is None else min(last_entry, end)

    @contextmanager
    def _measure_page(self) -> Iterator[list[Columns]]:
        """Records metrics of the page that the `with` block adds to the list."""
        fetched: list[Columns] = []
        if self._view.cluster.metrics is None:
            yield fetched
            return
        with self._view.cluster.metrics.reading(fetched):
            yield fetched


def _is_worth_a_scan(entries_behind_the_first: int, page_entries: int) -> bool:
    return entries_behind_the_first >= page_entries * PAGES_MIN
