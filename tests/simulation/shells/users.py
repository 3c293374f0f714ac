"""Applications that use another's ledger: they recover, follow, read or delete it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from ledgers.aio import LedgerClient, ReadHandle
from ledgers.entry import Entry
from ledgers.errors import NoSuchLedger
from tests.simulation.engine.world import Violation

from .actors import CREATE_TRIES_MAX, Actor, Setting
from .watch import WatchedLedger

BATCH_BYTES_MAX = 1000


class User(Actor):
    """An application that uses another's ledger."""

    def __init__(self, name: str, setting: Setting, client: LedgerClient, of: str) -> None:
        super().__init__(name, setting, client)
        self._of = of

    async def run(self) -> None:
        ledger_id = await self.setting.board.ledger_of(self._of)
        if ledger_id is not None:
            self.watched = self.setting.watch[ledger_id]
            await self.use(ledger_id)

    async def use(self, ledger_id: int) -> None:
        raise NotImplementedError


class Recoverer(User):
    """Opens another's ledger with recovery, and reads all of it."""

    async def use(self, ledger_id: int) -> None:
        await asyncio.sleep(self._begin_after())
        for _ in range(1 + self.chance.below(4)):
            if self.has_left:
                return
            opened = await self.attempt(
                "recover", self.client.open_ledger(ledger_id, password=self.setting.password)
            )
            if isinstance(opened, ReadHandle):
                self.watched.ended(self.name, opened.record)
                await self.attempt("read all", read_into(self.name, self.watched, opened.read()))
                return
            await self.pause()

    def _begin_after(self) -> float:
        """At a time of its own, or at one time with other recoverers, which then race."""
        if self.setting.recover_at is None:
            return self.chance.unit() * 50
        return self.setting.recover_at + self.chance.unit() * self.setting.site.pace_seconds


class TailReader(User):
    """Follows a ledger to its close, beginning again where it was whenever that fails."""

    _next = 0

    async def use(self, ledger_id: int) -> None:
        while not self.has_left and not self.watched.is_deleted:
            ended = await self.attempt("tail", self._follow(ledger_id))
            if ended is None:
                self._ended_with_the_ledger()
                return
            await self.pause()

    def _ended_with_the_ledger(self) -> None:
        if not self.watched.record.is_closed or self._next != self.watched.last_entry + 1:
            last = self.watched.record.last_entry
            raise Violation("tail", f"{self.name} ended before {self._next}, the ledger with {last}")

    async def _follow(self, ledger_id: int) -> None:
        reader = await self.client.open_ledger(ledger_id, recovery=False, password=self.setting.password)
        async with aclosing(reader.tail(self._next)) as entries:
            async for entry in entries:
                if entry.entry_id != self._next:
                    raise Violation("I10", f"{self.name} was given {entry.entry_id} in place of {self._next}")
                self._next += 1
                self.watched.returned(self.name, entry.entry_id, entry.payload)


class Reader(User):
    """Looks into a ledger without recovery, in every way there is."""

    async def use(self, ledger_id: int) -> None:
        for _ in range(2 + self.chance.below(6)):
            if self.has_left:
                return
            await self.pause()
            proven = self.watched.proven_through
            reader = await self.attempt(
                "open",
                self.client.open_ledger(ledger_id, recovery=False, password=self.setting.password),
            )
            if isinstance(reader, ReadHandle):
                self.watched.opened(self.name, reader.last_add_confirmed, proven)
                await self._look(reader, self.watched)

    async def _look(self, reader: ReadHandle, watched: WatchedLedger) -> None:
        match self.chance.below(5):
            case 0:
                await self.attempt("read", read_into(self.name, watched, reader.read()))
            case 1 if reader.last_add_confirmed >= 0:
                first = self.chance.below(reader.last_add_confirmed + 1)
                one = await self.attempt("read one", reader.read_entry(first))
                if isinstance(one, Entry):
                    watched.returned(self.name, one.entry_id, one.payload)
            case 2 if reader.last_add_confirmed >= 0:
                await self._read_batch(reader, watched)
            case 3:
                await self._ask(reader.read_last_add_confirmed, watched)
            case _:
                await self._ask(reader.try_read_last_add_confirmed, watched)

    async def _read_batch(self, reader: ReadHandle, watched: WatchedLedger) -> None:
        first = self.chance.below(reader.last_add_confirmed + 1)
        entries_max = 1 + self.chance.below(9)
        reading = reader.read_batch(first, entries_max=entries_max, bytes_max=BATCH_BYTES_MAX)
        batch = await self.attempt("read batch", reading)
        if isinstance(batch, list):
            if [e.entry_id for e in batch] != list(range(first, first + len(batch))) or not batch:
                raise Violation("I10", f"{self.name}: a batch from {first} has {[e.entry_id for e in batch]}")
            for entry in batch:
                watched.returned(self.name, entry.entry_id, entry.payload)

    async def _ask(self, ask: Callable[[], Coroutine[Any, Any, int]], watched: WatchedLedger) -> None:
        told = await self.attempt("ask", ask())
        if isinstance(told, int) and told > max(watched.checker.confirmed_through, watched.last_entry):
            raise Violation("I6", f"{self.name} was told of {told}, which is not confirmed")


class Deleter(User):
    """Deletes a ledger, whoever uses it."""

    async def use(self, ledger_id: int) -> None:
        await asyncio.sleep(self.chance.unit() * 40)
        for _ in range(CREATE_TRIES_MAX):
            if self.has_left:
                return
            gone = await self.attempt("delete", self.client.delete_ledger(ledger_id))
            if gone is None or isinstance(gone, NoSuchLedger):
                return
            await self.pause()


async def read_into(who: str, watched: WatchedLedger, entries: AsyncGenerator[Entry, None]) -> int:
    """Reads to the end; returns how many. Each entry must follow the one before."""
    count, before = 0, -1
    async with aclosing(entries):
        async for entry in entries:
            if count and entry.entry_id != before + 1:
                raise Violation("I10", f"{who} was given {entry.entry_id} after {before}")
            before, count = entry.entry_id, count + 1
            watched.returned(who, entry.entry_id, entry.payload)
    return count
