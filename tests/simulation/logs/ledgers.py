"""Ledgers as they promise to be, without bookies: what an ack quorum has is kept, what was under way may be.

Each is one list of entries behind a network that delays and loses. Its writer's entries arrive in order or not at all.
A recovery fences, and keeps some of what is under way; so may a failure. Readers see what the ledger was told to be
confirmed, which is a little behind: a writer that dies tells nobody of its last entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from bookie.wire import Columns
from bookie.wire.columnar_entries import of_payloads
from ledgers.errors import (
    AppendTimeout,
    LedgerClosed,
    LedgerError,
    LedgerFenced,
    LedgerRecoveryFailed,
    MetadataWentBack,
    NoSuchEntry,
    NoSuchLedger,
    NotEnoughAnswers,
    NotEnoughBookies,
)
from metadata import keys
from metadata.memory_store import MemoryData
from metadata.records import ledger_codec
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape, Tombstone
from tests.simulation.engine.chance import Stream
from tests.simulation.shells.site import Pipe, decide

from .plan import LEDGERS

if TYPE_CHECKING:
    from .site import LogSite

T = TypeVar("T")

ANSWER_SECONDS = 3.0
"""How long a call waits for its answer."""

IDLE_LAC_SECONDS = 0.05
POLL_SECONDS = 0.5
PAGE_ENTRIES = 3
ENSEMBLE = (Fragment(0, (BookieRef("b1", "i1"),)),)


@dataclass(slots=True)
class Ledger:
    """`told`: the last entry that bookies know to be confirmed, and `told_before` one that all of them do.
    `end`: its last entry, once it is closed."""

    ledger_id: int
    record: LedgerRecord
    entries: list[bytes] = field(default_factory=list)
    under_way: list[bytes] = field(default_factory=list)
    told: int = -1
    told_before: int = -1
    is_fenced: bool = False
    end: int | None = None
    closed_ms: int = 0

    def fence(self, chance: Stream) -> None:
        """Nothing more of its writer is taken; of what is under way some has arrived."""
        if not self.is_fenced:
            self.is_fenced = True
            self.entries += self.under_way[: chance.below(len(self.under_way) + 1)]

    def tell(self, last: int, *, all_know: bool = False) -> None:
        """A bookie, or each of them, knows that it is confirmed up to this entry."""
        if last > self.told:
            self.told_before, self.told = self.told, last
        if all_know:
            self.told_before = self.told

    def close(self, now_ms: int) -> int:
        if self.end is None:
            self.end, self.closed_ms = len(self.entries) - 1, now_ms
        return self.end

    def closed_record(self) -> LedgerRecord:
        """The record as it would stand if the metadata knew the end."""
        assert self.end is not None
        return replace(self.record.closed(self.end, sum(map(len, self.entries))), closed_ms=self.closed_ms)


class Ledgers:
    """All ledgers. Their records stand in the metadata, where the log's code reads and deletes them."""

    def __init__(self, site: LogSite, data: MemoryData) -> None:
        self.site = site
        self.chance = site.world.stream("ledgers")
        self.open_writers: list[ModelWriter] = []
        self.no_bookies_until = 0.0
        self.late_share = 0.0
        self.late = site.world.stream("late bookies")
        self._data = data
        self._ledgers: dict[int, Ledger] = {}

    def create(self, custom: Mapping[str, bytes], now_ms: int) -> Ledger:
        self._check_accepted()
        if self.site.world.now < self.no_bookies_until:
            raise NotEnoughBookies("a new ledger", {})
        ledger_id = len(self._ledgers) + 1
        record = LedgerRecord(
            ledger_id,
            Shape(1, 1, 1),
            ENSEMBLE,
            custom_metadata=custom,
            created_ms=now_ms,
            identity=b"%016d" % ledger_id,
        )
        key = keys.ledger(ledger_id)
        self._data.create(key, ledger_codec.encode(record), None, self.site.world.now, None)
        ledger = self._ledgers[ledger_id] = Ledger(ledger_id, record)
        return ledger

    def close(self, ledger: Ledger, now_ms: int) -> int:
        """Its end, which the metadata knows where forks are: what they need of it is judged by that."""
        end, key, now = ledger.close(now_ms), keys.ledger(ledger.ledger_id), self.site.world.now
        found = self._data.get(key, now) if self.site.plan.forking is not None else None
        if found is not None and self.is_in_metadata(ledger):
            self._data.replace(key, ledger_codec.encode(ledger.closed_record()), found.version, now)
        return end

    def find(self, ledger_id: int) -> Ledger:
        """Raises NoSuchLedger, and MetadataWentBack where the metadata is held back and does not know it."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or not self.is_in_metadata(ledger):
            self._check_accepted()
            raise NoSuchLedger(ledger_id)
        return ledger

    def find_to_recover(self, ledger_id: int) -> Ledger:
        """Nothing is recovered while the metadata is held back."""
        ledger = self.find(ledger_id)
        if self.is_held:
            raise LedgerRecoveryFailed(ledger_id, "the metadata went back")
        return ledger

    @property
    def is_held(self) -> bool:
        return self._data.get(keys.RESTORED, self.site.world.now) is not None

    def _check_accepted(self) -> None:
        if self.is_held:
            raise MetadataWentBack("the metadata went back")

    def left(self) -> list[Ledger]:
        return [one for one in self._ledgers.values() if self.is_in_metadata(one)]

    def all(self) -> list[Ledger]:
        return list(self._ledgers.values())

    def by_id(self, ledger_id: int) -> Ledger:
        return self._ledgers[ledger_id]

    def is_in_metadata(self, ledger: Ledger) -> bool:
        return isinstance(self._in_metadata(ledger), LedgerRecord)

    def is_deleted(self, ledger: Ledger) -> bool:
        """Whoever deletes it leaves a tombstone."""
        return isinstance(self._in_metadata(ledger), Tombstone)

    def _in_metadata(self, ledger: Ledger) -> LedgerRecord | Tombstone | None:
        found = self._data.get(keys.ledger(ledger.ledger_id), self.site.world.now)
        return None if found is None else ledger_codec.decode(found.key, found.value)

    def fail_all(self) -> None:
        """Every ledger under way loses its bookies."""
        for writer in list(self.open_writers):
            writer.lose_bookies()


class LedgerCalls:
    """One client's calls, by `name`. When it `is_dead` nothing reaches it any more."""

    def __init__(self, ledgers: Ledgers, name: str) -> None:
        self.ledgers = ledgers
        self.site = ledgers.site
        self.name = name
        self.is_dead = False

    async def create_ledger(self, *, custom_metadata: Mapping[str, bytes] | None, **_: Any) -> ModelWriter:
        silence, now_ms = NotEnoughBookies("a new ledger", {LEDGERS: "no answer"}), self.site.clock_ms()
        ledger = await self.call(lambda: self.ledgers.create(custom_metadata or {}, now_ms), silence)
        return ModelWriter(self, ledger)

    async def open_ledger(
        self, ledger_id: int, *, recovery: bool = True, password: bytes = b""
    ) -> ModelReader:
        if recovery:
            await self._recover(ledger_id)
        reader = ModelReader(self, ledger_id)
        await reader.look()
        return reader

    async def _recover(self, ledger_id: int) -> None:
        silence, find = LedgerRecoveryFailed(ledger_id, "no answer"), self.ledgers.find_to_recover
        await self.call(lambda: find(ledger_id).fence(self.ledgers.chance), silence)
        now_ms = self.site.clock_ms()
        await self.call(lambda: self.ledgers.close(find(ledger_id), now_ms), silence)

    async def call(self, serve: Callable[[], T], silence: LedgerError) -> T:
        """One request and its answer. Raises `silence` where either is lost; it may have been served all the same."""
        answer: asyncio.Future[T] = self.site.loop.create_future()
        if self.is_dead:
            raise silence
        there = self.site.delay("ledger", self.name, LEDGERS)
        if there is not None:
            self.site.world.after(there, lambda: self._serve(serve, answer))
        timer = self.site.loop.call_later(ANSWER_SECONDS, decide, answer, silence)
        try:
            return await answer
        finally:
            timer.cancel()

    def _serve(self, serve: Callable[[], T], answer: asyncio.Future[T]) -> None:
        outcome: T | LedgerError
        try:
            outcome = serve()
        except LedgerError as error:
            outcome = error
        back = self.site.delay("ledger reply", LEDGERS, self.name)
        if back is not None and not self.is_dead:
            self.site.world.after(back, lambda: decide(answer, outcome))


class ModelWriter:
    """What a log's writer uses of a `WriteHandle`."""

    entry_bytes_max = 1024
    is_behind = False

    def __init__(self, calls: LedgerCalls, ledger: Ledger) -> None:
        self._calls = calls
        self._ledger = ledger
        self.ledger_id = ledger.ledger_id
        self.last_add_confirmed = -1
        self.failure: LedgerError | None = None
        self.on_progress: Callable[[], None] = lambda: None
        self._pushed = -1
        self._is_closing = False
        self._ended = asyncio.Event()
        self._settled = asyncio.Event()
        self._there = Pipe(calls.site, calls.name, LEDGERS, self._is_lost)
        self._back = Pipe(calls.site, LEDGERS, calls.name, self._is_lost)
        calls.ledgers.open_writers.append(self)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def record(self) -> Any:
        return SimpleNamespace(length_bytes=sum(map(len, self._ledger.entries)))

    def submit_each(self, payloads: list[bytes], size_bytes: int, futures: tuple[()], head: bytes) -> None:
        assert not (self.has_ended or futures)
        assert not self._is_closing
        entries = [head + payload for payload in payloads]
        assert size_bytes == sum(map(len, entries))
        self._pushed += len(entries)
        last, lac = self._pushed, self.last_add_confirmed
        self._settled.clear()
        self._ledger.under_way += entries
        self._there.send("append", lambda: self._arrive(len(entries), last, lac))

    def _arrive(self, count: int, last: int, lac: int) -> None:
        ledger = self._ledger
        if ledger.is_fenced:
            self._back.send("append reply", lambda: self._end(LedgerFenced(self.ledger_id, "in recovery")))
            return
        if not (
            ledger.entries or self._calls.ledgers.is_in_metadata(ledger)
        ):  # bookies take no first entries (W8)
            self._back.send(
                "append reply", lambda: self._end(NotEnoughBookies(f"ledger {self.ledger_id}", {}))
            )
            return
        arrived, ledger.under_way = ledger.under_way[:count], ledger.under_way[count:]
        ledger.entries += arrived
        ledger.tell(lac)
        self._back.send("append reply", lambda: self._confirm(last))

    def _confirm(self, last: int) -> None:
        if self.has_ended or self._calls.is_dead:
            return
        self.last_add_confirmed = last
        if last == self._pushed:
            self._settled.set()
            self._calls.site.loop.call_later(IDLE_LAC_SECONDS, self._tell, last)
        self.on_progress()

    def _tell(self, last: int) -> None:
        if not self.has_ended and not self._calls.is_dead and self._pushed == last:
            self._there.send("append", lambda: self._take_lac(last))

    def _take_lac(self, last: int) -> None:
        self._ledger.tell(last, all_know=True)

    def _is_lost(self) -> None:
        """Something on its way was lost: no more is answered."""
        error = AppendTimeout(self.ledger_id, ANSWER_SECONDS, {})
        self._calls.site.world.after(ANSWER_SECONDS, lambda: self._end(error))

    def lose_bookies(self) -> None:
        """Its bookies are gone: what has arrived is kept, and of what is under way some."""
        if not self.has_ended and not self._ledger.is_fenced:
            self._ledger.fence(self._calls.ledgers.chance)
            self._end(NotEnoughBookies(f"ledger {self.ledger_id}", {}))

    def send_lac(self) -> None:
        self._ledger.tell(self.last_add_confirmed, all_know=True)

    async def close(self) -> None:
        self._is_closing = True
        while not self.has_ended and self.last_add_confirmed < self._pushed:
            waits = [asyncio.ensure_future(one.wait()) for one in (self._settled, self._ended)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if not self.has_ended:
            await self._close()
        if self.failure is not None:
            raise self.failure

    async def _close(self) -> None:
        now_ms = self._calls.site.clock_ms()

        def close() -> int:
            ledger = self._calls.ledgers.find(self.ledger_id)
            if ledger.end is None and ledger.is_fenced:
                raise LedgerFenced(self.ledger_id, "in recovery")
            ledger.is_fenced = True
            return self._calls.ledgers.close(ledger, now_ms)

        silence = LedgerClosed(self.ledger_id, "the outcome of closing it is not known")
        try:
            end = await self._calls.call(close, silence)
        except LedgerError as error:
            self._end(error)
            return
        mine = end == self.last_add_confirmed
        self._end(None if mine else LedgerFenced(self.ledger_id, f"recovered and closed at entry {end}"))

    async def abandon(self) -> None:
        self._end(LedgerClosed(self.ledger_id, "abandoned"))

    def _end(self, error: LedgerError | None) -> None:
        if self.has_ended or self._calls.is_dead:
            return
        self.failure = error
        self._ended.set()
        self._calls.ledgers.open_writers.remove(self)
        self.on_progress()


class ModelReader:
    """What a log's reader uses of a `ReadHandle`."""

    def __init__(self, calls: LedgerCalls, ledger_id: int) -> None:
        self._calls = calls
        self.ledger_id = ledger_id
        self.last_add_confirmed = -1
        self.is_closed = False
        self._length = 0

    @property
    def record(self) -> Any:
        return SimpleNamespace(length_bytes=self._length)

    @property
    def length_bytes(self) -> int:
        return self._length

    def is_confirmed(self, last_entry: int) -> None:
        if not self.is_closed:
            self.last_add_confirmed = max(self.last_add_confirmed, last_entry)

    async def look(self) -> None:
        silence = NotEnoughAnswers(self.ledger_id, {})
        seen = await self._calls.call(self._seen, silence)
        end, told, self._length = seen
        if end is not None:
            self.is_closed, self.last_add_confirmed = True, end
        elif not self.is_closed:
            self.last_add_confirmed = max(self.last_add_confirmed, told)

    def _seen(self) -> tuple[int | None, int, int]:
        ledgers = self._calls.ledgers
        ledger, is_late = ledgers.find(self.ledger_id), ledgers.late.happens(ledgers.late_share)
        return ledger.end, ledger.told_before if is_late else ledger.told, sum(map(len, ledger.entries))

    async def pages(
        self, first_entry: int = 0, last_entry: int | None = None
    ) -> AsyncGenerator[Columns, None]:
        last = self.last_add_confirmed if last_entry is None else last_entry
        if last_entry is None and first_entry == last + 1:
            return
        if not 0 <= first_entry <= last <= self.last_add_confirmed:
            raise NoSuchEntry(self.ledger_id, first_entry, self.last_add_confirmed)
        while first_entry <= last:
            stop = min(first_entry + PAGE_ENTRIES, last + 1)
            yield await self._page(first_entry, stop)
            first_entry = stop

    async def _page(self, first: int, stop: int) -> Columns:
        def read() -> list[bytes]:
            return self._calls.ledgers.find(self.ledger_id).entries[first:stop]

        entries = await self._calls.call(read, NotEnoughAnswers(self.ledger_id, {}))
        if self._calls.site.doubts and len(entries) < stop - first:
            raise NoSuchEntry(self.ledger_id, first + len(entries), self.last_add_confirmed)
        assert len(entries) == stop - first, "what is confirmed is there"
        return of_payloads(first, entries, b"")

    async def tail_pages(
        self, first_entry: int = 0, *, timeout: float | None = None
    ) -> AsyncGenerator[Columns, None]:
        now = self._calls.site.loop.time
        until = now() + (1e9 if timeout is None else timeout)
        while True:
            await self.look()
            if first_entry <= self.last_add_confirmed:
                async for columns in self.pages(first_entry):
                    first_entry = columns.last_entry + 1
                    yield columns
                until = now() + (1e9 if timeout is None else timeout)
                continue
            if self.is_closed and first_entry > self.last_add_confirmed + 1:
                raise NoSuchEntry(self.ledger_id, first_entry, self.last_add_confirmed)
            if self.is_closed or now() >= until:
                return
            await asyncio.sleep(min(POLL_SECONDS, max(0.0, until - now()) + 1e-6))
