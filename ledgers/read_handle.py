"""Reading a ledger: pages in parallel ahead of the reader, and following one that is still open."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self

from bookie.wire import NO_ENTRY, Columns, LacRequest, ReadRequest, Status
from metadata.errors import MetadataError, WatchCompacted
from metadata.ledger_record import BookieRef, Fragment, LedgerRecord
from metadata.ledger_store import VersionedRecord

from .digest import Digester
from .entry import Entry
from .errors import (
    BookieUnavailable,
    EntryUnreadable,
    LedgerError,
    MetadataUnavailable,
    NoSuchEntry,
    NoSuchLedger,
)
from .page_read import Ask, PageDone, PageEffect, PageFailed, PageRead
from .pipeline_shell import Cluster
from .quorum import Outcome
from .striping import Striping

WINDOW_ENTRIES_MAX = 64 * 1024
"""Entries of one read-ahead window."""

FIRST_WINDOW_ENTRIES = 256
"""A window while nothing is known of the entries' size."""

BOOKIES_REMEMBERED_MAX = 64


class ReadHandle:
    """A ledger opened for reading. Made by `LedgerClient.open_ledger`; belongs to its event loop.

    Never returns bytes whose digest, ledger id or entry id differ from what was asked, and nothing
    past the last entry known to be confirmed.
    """

    def __init__(self, cluster: Cluster, found: VersionedRecord, digester: Digester) -> None:
        self._cluster = cluster
        self._config = cluster.config
        self._record = found.record
        self._version = found.version
        self._digester = digester
        self._striping = Striping(found.record.shape)
        self._last_add_confirmed = NO_ENTRY if found.record.last_entry is None else found.record.last_entry
        self._entry_bytes = self._average_entry_bytes()

    @property
    def ledger_id(self) -> int:
        return self._record.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this reader last saw it."""
        return self._record

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._record.is_closed

    @property
    def last_add_confirmed(self) -> int:
        """The last entry this reader knows to be confirmed; the last entry, for a closed ledger."""
        return self._last_add_confirmed

    async def read(self, first_entry: int = 0, last_entry: int | None = None) -> AsyncGenerator[Entry, None]:
        """The entries first_entry … last_entry (to the last confirmed one by default), in order.

        Raises NoSuchEntry for a range outside what is confirmed, EntryUnreadable or DigestMismatch
        when no replica has an entry; what came before has been given.
        """
        async with aclosing(self.read_columns(first_entry, last_entry)) as pages:
            async for columns in pages:
                for entry_id, payload, _ in columns.rows():
                    yield Entry(entry_id, bytes(payload))

    async def read_entry(self, entry_id: int) -> Entry:
        """One entry."""
        async with aclosing(self.read(entry_id, entry_id)) as entries:
            async for entry in entries:
                return entry
        raise NoSuchEntry(self.ledger_id, entry_id, self._last_add_confirmed)

    async def read_columns(
        self, first_entry: int = 0, last_entry: int | None = None
    ) -> AsyncGenerator[Columns, None]:
        """The same entries in columns, as they come from the bookies, digests verified: for bulk work."""
        last = self._last_add_confirmed if last_entry is None else last_entry
        if last_entry is None and first_entry == last + 1:
            return  # nothing there yet
        if not 0 <= first_entry <= last or last > self._last_add_confirmed:
            wrong = first_entry if first_entry < 0 or first_entry > last else last
            raise NoSuchEntry(self.ledger_id, wrong, self._last_add_confirmed)
        windows: deque[asyncio.Task[list[Columns]]] = deque()
        next_entry = first_entry
        try:
            while next_entry <= last or windows:
                while next_entry <= last and len(windows) < self._config.read_ahead_pages:
                    window_last = min(last, self._window_end(next_entry))
                    windows.append(asyncio.create_task(self._read_window(next_entry, window_last)))
                    next_entry = window_last + 1
                for columns in await windows.popleft():
                    self._learn_size(columns)
                    yield columns
        finally:
            for task in windows:
                task.cancel()
            if windows:
                await asyncio.wait(windows)

    async def try_read_last_add_confirmed(self) -> int:
        """Asks the bookies; one good answer is enough. May lag behind the writer; never fences."""
        return await self._ask_for_lac(enough=1)

    async def read_last_add_confirmed(self) -> int:
        """Asks the bookies and waits for so many answers that no confirmed frame can have been missed.

        Raises LedgerError when too few answer. Never fences.
        """
        return await self._ask_for_lac(enough=None)

    async def tail(self, start: int = 0) -> AsyncGenerator[Entry, None]:
        """Entries from `start` on as they are confirmed, across ensemble changes, to the ledger's close.

        Never fences. Raises NoSuchLedger when the ledger is deleted meanwhile.
        """
        next_entry = start
        while True:
            if next_entry <= self._last_add_confirmed:
                async with aclosing(self.read(next_entry, self._last_add_confirmed)) as entries:
                    async for entry in entries:
                        next_entry = entry.entry_id + 1
                        yield entry
            if self.is_closed and next_entry > self._last_add_confirmed:
                return
            await self._wait_for_more()

    async def close(self) -> None:
        """Nothing to release: connections belong to the client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- pages ------------------------------------------------------------------------------------

    def _average_entry_bytes(self) -> int:
        record = self._record
        if record.last_entry is None or record.length_bytes is None or record.last_entry < 0:
            return 0
        return max(1, record.length_bytes // (record.last_entry + 1))

    def _learn_size(self, columns: Columns) -> None:
        self._entry_bytes = max(1, len(columns.payload) // len(columns))

    def _window_end(self, first_entry: int) -> int:
        """A window is about one page, inside one fragment."""
        entries = FIRST_WINDOW_ENTRIES
        if self._entry_bytes:
            entries = min(WINDOW_ENTRIES_MAX, max(1, self._config.page_bytes // self._entry_bytes))
        fragment = self._record.fragment_of(first_entry)
        following = [f.first_entry for f in self._record.fragments if f.first_entry > fragment.first_entry]
        end = first_entry + entries - 1
        return min(end, following[0] - 1) if following else end

    async def _read_window(self, first_entry: int, last_entry: int) -> list[Columns]:
        pages: list[Columns] = []
        next_entry = first_entry
        rotation = first_entry // WINDOW_ENTRIES_MAX
        while next_entry <= last_entry:
            columns = await self._read_page(next_entry, last_entry, rotation)
            pages.append(columns)
            next_entry = columns.last_entry + 1
        return pages

    async def _read_page(self, first_entry: int, last_entry: int, rotation: int) -> Columns:
        """One page; when no replica has it, the metadata may be out of date: looked at once more."""
        try:
            return await self._read_page_as_known(first_entry, last_entry, rotation)
        except EntryUnreadable:
            before = self._record.fragments
            self._take_record(await self._latest_record())
            if self._record.fragments == before:
                raise
            return await self._read_page_as_known(first_entry, last_entry, rotation)

    async def _read_page_as_known(self, first_entry: int, last_entry: int, rotation: int) -> Columns:
        fragment = self._record.fragment_of(first_entry)
        machine = PageRead(
            self.ledger_id,
            self._striping,
            fragment,
            self._digester,
            first_entry,
            last_entry,
            avoid=self._to_avoid(fragment),
            rotation=rotation,
        )
        return await self._run_page(machine, fragment)

    def _to_avoid(self, fragment: Fragment) -> list[int]:
        failed = self._cluster.failed_lately()
        return [n for n, bookie in enumerate(fragment.ensemble) if bookie in failed]

    async def _run_page(self, machine: PageRead, fragment: Fragment) -> Columns:
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
                *(self._ask(fragment.ensemble[a.position], a, machine) for a in asks)
            )
            effects = [effect for answer in answers for effect in answer]

    async def _ask(self, bookie: BookieRef, ask: Ask, machine: PageRead) -> list[PageEffect]:
        request = ReadRequest(
            bookie.incarnation, self.ledger_id, ask.first_entry, ask.last_entry, self._config.page_bytes
        )
        try:
            reply = await self._cluster.bookies.read(bookie, request)
        except BookieUnavailable as error:
            self._cluster.note_failure(bookie)
            return machine.failed(ask.position, error.why)
        return machine.answered(ask.position, reply)

    # --- last-add-confirmed -------------------------------------------------------------------------

    def _note_lac(self, last_entry: int) -> None:
        # A closed ledger ends where its metadata says; a bookie may have heard more (F5).
        if not self.is_closed:
            self._last_add_confirmed = max(self._last_add_confirmed, last_entry)

    async def _ask_for_lac(self, enough: int | None, wait_ms: int = 0) -> int:
        """Asks the last ensemble; `enough` good answers, or coverage of every write set (None)."""
        if self.is_closed:
            return self._last_add_confirmed
        ensemble = self._record.fragments[-1].ensemble
        asked = {
            asyncio.create_task(self._lac_of(bookie, wait_ms)): position
            for position, bookie in enumerate(ensemble)
        }
        answered: set[int] = set()
        failures: dict[int, str] = {}
        pending = set(asked)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._take_lac(asked[task], task.result(), answered, failures)
                if self._has_enough(enough, answered):
                    return self._last_add_confirmed
        finally:
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending)
        said = ", ".join(f"{ensemble[n]}: {why}" for n, why in sorted(failures.items()))
        raise LedgerError(
            f"too few bookies told the last confirmed entry of ledger {self.ledger_id} ({said})"
        )

    def _has_enough(self, enough: int | None, answered: set[int]) -> bool:
        if enough is None:
            return self._striping.coverage.outcome(answered) is Outcome.WON
        return len(answered) >= enough

    def _take_lac(self, position: int, said: int | str, answered: set[int], failures: dict[int, str]) -> None:
        if isinstance(said, str):
            failures[position] = said
        else:
            answered.add(position)
            self._note_lac(said)

    async def _lac_of(self, bookie: BookieRef, wait_ms: int) -> int | str:
        """The last-add-confirmed a bookie tells, or why it tells none."""
        request = LacRequest(
            bookie.incarnation, self.ledger_id, wait_beyond=self._last_add_confirmed, wait_ms=wait_ms
        )
        try:
            reply = await self._cluster.bookies.last_add_confirmed(bookie, request)
        except BookieUnavailable as error:
            return error.why
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            return f"{reply.status} {reply.detail}"
        statement = reply.last_add_confirmed
        if statement is not None and not self._digester.is_valid_lac(statement):
            return "its last-add-confirmed has a wrong digest"
        return NO_ENTRY if statement is None else statement.last_entry

    async def _wait_for_more(self) -> None:
        """Returns when one more entry is confirmed, the metadata changed, or some time has passed."""
        watching = asyncio.create_task(self._next_record())
        polling = asyncio.create_task(self._poll_lac())
        tasks = (watching, polling)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _poll_lac(self) -> None:
        """Parks a question at every bookie of the last ensemble until one has news."""
        before = self._last_add_confirmed
        wait_ms = int(self._config.long_poll_seconds * 1000)
        ensemble = self._record.fragments[-1].ensemble
        asked = [asyncio.create_task(self._lac_of(bookie, wait_ms)) for bookie in ensemble]
        pending = set(asked)
        try:
            while pending and self._last_add_confirmed == before:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    said = task.result()
                    if isinstance(said, int):
                        self._note_lac(said)
        finally:
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending)
        if self._last_add_confirmed == before:
            # All have answered with nothing new; where they failed at once, do not ask in a tight loop.
            await asyncio.sleep(self._config.retry_replacement_seconds)

    async def _next_record(self) -> None:
        """Waits for the next version of the ledger's metadata and takes it over."""
        try:
            records = self._cluster.ledgers.watch(self.ledger_id, after_revision=self._version)
            async with aclosing(records) as changes:
                async for found in changes:
                    self._take_record(found)
                    return
        except WatchCompacted:
            self._take_record(await self._latest_record())
        except MetadataError as error:
            raise MetadataUnavailable(f"cannot follow ledger {self.ledger_id}: {error}") from error

    async def _latest_record(self) -> VersionedRecord | None:
        try:
            return await self._cluster.ledgers.read(self.ledger_id)
        except MetadataError as error:
            raise MetadataUnavailable(
                f"cannot read the metadata of ledger {self.ledger_id}: {error}"
            ) from error

    def _take_record(self, found: VersionedRecord | None) -> None:
        if found is None:
            raise NoSuchLedger(self.ledger_id)
        self._record, self._version = found.record, found.version
        if found.record.last_entry is not None:
            self._last_add_confirmed = found.record.last_entry
