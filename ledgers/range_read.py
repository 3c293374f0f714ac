"""Reading a range of confirmed entries: windows fetched ahead in parallel, each page from some replica."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from bookie.wire import Columns, ReadRequest
from metadata.ledger_record import BookieRef, Fragment

from .errors import BookieUnavailable, EntryUnreadable
from .ledger_view import LedgerView
from .page_read import Ask, PageDone, PageEffect, PageFailed, PageRead

WINDOW_ENTRIES_MAX = 64 * 1024
"""Entries of one read-ahead window."""

FIRST_WINDOW_ENTRIES = 256
"""A window while nothing is known of the entries' size."""


class RangeRead:
    """Reads ranges of one ledger; learns the size of its entries on the way."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self._config = view.cluster.config
        self._entry_bytes = _average_entry_bytes(view)

    async def columns(self, first_entry: int, last_entry: int) -> AsyncGenerator[Columns, None]:
        """The entries of the range, in order, in pages. At most `read_ahead_pages` windows are under way."""
        windows: deque[asyncio.Task[list[Columns]]] = deque()
        next_entry = first_entry
        try:
            while next_entry <= last_entry or windows:
                while next_entry <= last_entry and len(windows) < self._config.read_ahead_pages:
                    window_last = min(last_entry, self._window_end(next_entry))
                    windows.append(asyncio.create_task(self._read_window(next_entry, window_last)))
                    next_entry = window_last + 1
                for columns in await windows.popleft():
                    self._entry_bytes = max(1, len(columns.payload) // len(columns))
                    yield columns
        finally:
            for task in windows:
                task.cancel()
            if windows:
                await asyncio.wait(windows)

    def _window_end(self, first_entry: int) -> int:
        """A window is about one page, inside one fragment."""
        entries = FIRST_WINDOW_ENTRIES
        if self._entry_bytes:
            entries = min(WINDOW_ENTRIES_MAX, max(1, self._config.page_bytes // self._entry_bytes))
        fragments = self._view.record.fragments
        following = [f.first_entry for f in fragments if f.first_entry > first_entry]
        return min([first_entry + entries - 1, *(first - 1 for first in following)])

    async def _read_window(self, first_entry: int, last_entry: int) -> list[Columns]:
        pages: list[Columns] = []
        next_entry = first_entry
        while next_entry <= last_entry:
            columns = await self._read_page(next_entry, last_entry)
            pages.append(columns)
            next_entry = columns.last_entry + 1
        return pages

    async def _read_page(self, first_entry: int, last_entry: int) -> Columns:
        """One page; when no replica has it, the metadata may be out of date: looked at once more."""
        try:
            return await self._read_page_as_known(first_entry, last_entry)
        except EntryUnreadable:
            before = self._view.record.fragments
            await self._view.refresh()
            if self._view.record.fragments == before:
                raise
            return await self._read_page_as_known(first_entry, last_entry)

    async def _read_page_as_known(self, first_entry: int, last_entry: int) -> Columns:
        fragment = self._view.record.fragment_of(first_entry)
        failed = self._view.cluster.failed_lately()
        machine = PageRead(
            self._view.ledger_id,
            self._view.striping,
            fragment,
            self._view.digester,
            first_entry,
            last_entry,
            avoid=[n for n, bookie in enumerate(fragment.ensemble) if bookie in failed],
            rotation=first_entry // WINDOW_ENTRIES_MAX,
        )
        return await self._run(machine, fragment)

    async def _run(self, machine: PageRead, fragment: Fragment) -> Columns:
        effects = machine.start()
        while True:
            asks: list[Ask] = []
            for effect in effects:
                match effect:
                    case PageDone(columns):
                        return columns
                    case PageFailed(error):
                        raise error
                    case Ask():
                        asks.append(effect)
            answers = await asyncio.gather(
                *(self._ask(fragment.ensemble[ask.position], ask, machine) for ask in asks)
            )
            effects = [effect for answer in answers for effect in answer]

    async def _ask(self, bookie: BookieRef, ask: Ask, machine: PageRead) -> list[PageEffect]:
        request = ReadRequest(
            bookie.incarnation, self._view.ledger_id, ask.first_entry, ask.last_entry, self._config.page_bytes
        )
        try:
            reply = await self._view.cluster.bookies.read(bookie, request)
        except BookieUnavailable as error:
            self._view.cluster.note_failure(bookie)
            return machine.failed(ask.position, error.why)
        return machine.answered(ask.position, reply)


def _average_entry_bytes(view: LedgerView) -> int:
    """Known for a closed ledger, 0 for another."""
    last, length = view.record.last_entry, view.record.length_bytes
    return 0 if last is None or length is None or last < 0 else max(1, length // (last + 1))
