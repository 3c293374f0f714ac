"""Fetches one page: executes `PageRead`, with speculative reads when bookies are slow."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from bookie.wire import Columns, ReadReply, ReadRequest
from metadata.records.ledger_record import BookieRef, Fragment

from ..errors import BookieUnavailable, EntryUnreadable, LedgerError, NoSuchEntry
from ..protocol.page_read import PageDone, PageEffect, PageFailed, PageRead, ReadReplica
from ..tasks import end_tasks, was_suspended
from .ledger_view import LedgerView

ENTRIES_A_TURN = 2 * 1024
"""After this number of entries, a range is preferably read from other bookies, to balance the load."""


class PageFetcher:
    """Fetches pages of one ledger; records which bookies are slow, so that all of the client's readers ask them last.

    `without`: this incarnation of a bookie is never asked.
    """

    def __init__(self, view: LedgerView, *, without: BookieRef | None = None) -> None:
        self._view = view
        self.without = without
        self._config = view.cluster.config

    async def fetch(self, first_entry: int, last_entry: int, bytes_max: int | None = None) -> Columns:
        """Fetches a verified run of entries from `first_entry` on, of about `bytes_max` (default `page_bytes`); never
        empty.

        Raises EntryUnreadable or DigestMismatch if no replica returned the first entry, or NoSuchEntry if that entry is
        not confirmed and every replica answers that it does not have it. Before raising one of these errors, reads the
        metadata again, because it may be outdated.
        """
        size = min(bytes_max or self._config.page_bytes, self._config.page_bytes)
        metrics, traces = self._view.cluster.metrics, self._view.cluster.traces
        if metrics is None and traces is None:
            return await self._fetch(first_entry, last_entry, size)
        fetched: list[Columns] = []
        with ExitStack() as stack:
            if metrics is not None:
                stack.enter_context(metrics.reading(fetched))
            if traces is not None:
                stack.enter_context(traces.reading(self._view.ledger_id, first_entry, fetched))
            fetched.append(await self._fetch(first_entry, last_entry, size))
        return fetched[0]

    async def _fetch(self, first_entry: int, last_entry: int, size: int) -> Columns:
        try:
            return await self._fetch_as_known(first_entry, last_entry, size)
        except (EntryUnreadable, NoSuchEntry):
            before = self._view.record
            await self._view.refresh()
            now = self._view.record
            if now.is_in_object_store and not before.is_on_no_bookie:
                return await self._view.in_object_store().page(first_entry, last_entry, size)
            if now.fragments == before.fragments:
                raise
            return await self._fetch_as_known(first_entry, last_entry, size)

    async def _fetch_as_known(self, first_entry: int, last_entry: int, bytes_max: int) -> Columns:
        if self._view.record.is_on_no_bookie:
            try:
                return await self._view.in_object_store().page(first_entry, last_entry, bytes_max)
            except EntryUnreadable:
                if self._view.record.has_no_ensembles:
                    raise  # if the record names bookies again, they may hold the entries
        fragment = self._view.record.fragment_of(first_entry)
        last_there = self._view.last_entry_of_fragment(first_entry)
        last = last_entry if last_there is None else min(last_entry, last_there)
        machine = PageRead(
            self._view.ledger_id,
            self._view.striping,
            fragment,
            self._view.digester,
            first_entry,
            last,
            avoid=self._to_avoid(fragment),
            never=[position for position, bookie in enumerate(fragment.ensemble) if bookie == self.without],
            rotation=first_entry // ENTRIES_A_TURN,
        )
        return await self._run(machine, fragment, bytes_max)

    async def _run(self, machine: PageRead, fragment: Fragment, bytes_max: int) -> Columns:
        asked: dict[asyncio.Task[ReadReply], int] = {}
        effects = machine.start()
        try:
            while True:
                for effect in effects:
                    match effect:
                        case PageDone(columns):
                            return columns
                        case PageFailed():
                            raise self._error(effect)
                        case ReadReplica(position):
                            call = self._ask(fragment.ensemble[position], effect, bytes_max)
                            asked[asyncio.create_task(call)] = position
                effects = await self._hear(machine, fragment, asked)
        finally:
            await end_tasks(asked)

    async def _hear(
        self, machine: PageRead, fragment: Fragment, asked: dict[asyncio.Task[ReadReply], int]
    ) -> list[PageEffect]:
        """Waits for the next answers; notifies the machine if none arrives within `speculative_read_seconds`."""
        patience_seconds = self._config.speculative_read_seconds or None
        began = asyncio.get_running_loop().time()
        done, _ = await asyncio.wait(asked, timeout=patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return [effect for task in done for effect in self._pass_answer(machine, asked.pop(task), task)]
        if patience_seconds and was_suspended(began + patience_seconds):
            return []
        for position in asked.values():
            self._view.cluster.note_slowness(fragment.ensemble[position])
        return machine.overdue()

    def _pass_answer(
        self, machine: PageRead, position: int, task: asyncio.Task[ReadReply]
    ) -> list[PageEffect]:
        if task.cancelled():  # cancelled by the client, which cancels its calls when it is closed
            return machine.failed(position, "the connection was closed")
        match task.exception():
            case None:
                return machine.answered(position, task.result())
            case BookieUnavailable() as error:
                return machine.failed(position, error.why)
            case error:
                raise error

    async def _ask(self, bookie: BookieRef, ask: ReadReplica, bytes_max: int) -> ReadReply:
        request = ReadRequest(
            bookie.incarnation,
            self._view.ledger_id,
            ask.first_entry,
            ask.last_entry,
            bytes_max,
            credential=self._view.credential(bookie),
            identity=self._view.identity,
        )
        try:
            return await self._view.cluster.read(bookie, request)
        except BookieUnavailable:
            self._view.cluster.note_failure(bookie)
            raise

    def _error(self, failed: PageFailed) -> LedgerError:
        confirmed, entry_id = self._view.last_add_confirmed, failed.error.entry_id
        error: LedgerError = failed.error
        if failed.is_absent and entry_id > confirmed:
            error = NoSuchEntry(self._view.ledger_id, entry_id, confirmed)
        return self._view.cluster.why_failed(error)

    def _to_avoid(self, fragment: Fragment) -> list[int]:
        """Returns the positions of bookies that failed or were slow lately."""
        avoided = self._view.cluster.slow_or_failed_lately()
        return [position for position, bookie in enumerate(fragment.ensemble) if bookie in avoided]
