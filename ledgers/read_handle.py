"""Reading a ledger, and following one that is still open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from bookie.wire import Columns
from metadata.ledger_record import LedgerRecord
from metadata.ledger_store import VersionedRecord

from . import lac_read
from .cluster import Cluster
from .digest import Digester
from .entry import Entry
from .errors import NoSuchEntry
from .ledger_view import LedgerView
from .range_read import RangeRead


class ReadHandle:
    """A ledger opened for reading. Made by `LedgerClient.open_ledger`; belongs to its event loop.

    Never returns bytes whose digest, ledger id or entry id differ from what was asked, and nothing
    past the last entry known to be confirmed.
    """

    def __init__(self, cluster: Cluster, found: VersionedRecord, digester: Digester) -> None:
        self._view = LedgerView(cluster, found, digester)
        self._range = RangeRead(self._view)

    @property
    def ledger_id(self) -> int:
        return self._view.ledger_id

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as this reader last saw it."""
        return self._view.record

    @property
    def is_closed(self) -> bool:
        """Whether the ledger's end is final."""
        return self._view.is_closed

    @property
    def last_add_confirmed(self) -> int:
        """The last entry this reader knows to be confirmed; the last entry, for a closed ledger."""
        return self._view.last_add_confirmed

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
        """One entry. Raises as `read` does."""
        async with aclosing(self.read(entry_id, entry_id)) as entries:
            return await anext(entries)

    async def read_columns(
        self, first_entry: int = 0, last_entry: int | None = None
    ) -> AsyncGenerator[Columns, None]:
        """The same entries in columns, as they come from the bookies, digests verified: for bulk work."""
        confirmed = self.last_add_confirmed
        last = confirmed if last_entry is None else last_entry
        if last_entry is None and first_entry == last + 1:
            return  # nothing there yet
        if not 0 <= first_entry <= last <= confirmed:
            wrong = last if 0 <= first_entry <= last else first_entry
            raise NoSuchEntry(self.ledger_id, wrong, confirmed)
        async with aclosing(self._range.columns(first_entry, last)) as pages:
            async for columns in pages:
                yield columns

    async def try_read_last_add_confirmed(self) -> int:
        """Asks the bookies; one good answer is enough. May lag behind the writer; never fences."""
        return await lac_read.ask_one(self._view)

    async def read_last_add_confirmed(self) -> int:
        """Asks the bookies and waits for so many answers that no confirmed frame can have been missed.

        Raises LedgerError when too few answer. Never fences.
        """
        return await lac_read.ask_every_write_set(self._view)

    async def tail(self, start: int = 0) -> AsyncGenerator[Entry, None]:
        """Entries from `start` on as they are confirmed, across ensemble changes, to the ledger's close.

        Never fences. Raises NoSuchLedger when the ledger is deleted meanwhile.
        """
        following = asyncio.create_task(self._view.follow())
        next_entry = start
        try:
            while True:
                self._view.changed.clear()
                if next_entry <= self.last_add_confirmed:
                    async with aclosing(self.read(next_entry)) as entries:
                        async for entry in entries:
                            next_entry = entry.entry_id + 1
                            yield entry
                elif self.is_closed:
                    return
                else:
                    await self._wait_for_more(following)
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def _wait_for_more(self, following: asyncio.Task[None]) -> None:
        """Returns when more is confirmed, the record changed, or some time has passed."""
        changed = asyncio.create_task(self._view.changed.wait())
        asking = asyncio.create_task(lac_read.wait_for_news(self._view))
        waiting: tuple[asyncio.Task[Any], ...] = (changed, asking, following)
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (changed, asking):
                task.cancel()
            await asyncio.wait((changed, asking))

    async def close(self) -> None:
        """Nothing to release: connections belong to the client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
