"""Who acts on the log: writers, readers, and those who give it up, hold it, rename it, or audit it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ledgers.elections.term import Term as LeaderTerm
from ledgers.errors import (
    LedgerError,
    LogExists,
    LogFenced,
    LogHeld,
    LogTruncated,
    MetadataUnavailable,
    MetadataWentBack,
    NoSuchLedger,
)
from ledgers.logs.errors import OutOfOrderSequence
from ledgers.logs.log import Log
from ledgers.logs.record_batch import Record
from ledgers.logs.writing.log_writer import LogWriter
from metadata.errors import MetadataError
from tests.simulation.engine.loop import OWNER
from tests.simulation.engine.world import Violation

from .one_end import OneEnd
from .plan import Reader, Term, Writer
from .probes import LogProbe

if TYPE_CHECKING:
    from .site import Client, LogSite

T = TypeVar("T")

TRIES_MAX = 8
PAUSE_SECONDS = 0.5


class LogUser:
    """One program, with a client of its own. `reads_ledgers`: it uses a segment's ledger, which may be gone."""

    reads_ledgers = False

    def __init__(self, site: LogSite, name: str) -> None:
        self.site = site
        self.name = name
        self.client: Client = site.client(name)
        self.one_end = OneEnd(self)

    def note(self, what: str, *details: object) -> None:
        self.site.world.note(f"{self.name} {what}", *details)

    def expected(self, what: str, error: Exception) -> None:
        """Raises Violation for an error that is none of the documented ones, or that wraps a bug."""
        self.note("%s: %s", what, error)
        cause: BaseException = error
        while isinstance(cause, LedgerError) and cause.__cause__ is not None:
            cause = cause.__cause__
        if not isinstance(cause, LedgerError | MetadataError):
            raise Violation("errors", f"{self.name}: {what} met {error!r} from {cause!r}") from error
        if isinstance(error, NoSuchLedger) and not self.reads_ledgers:
            raise Violation("errors", f"{self.name}: {what} met {error!r}, and nothing was lost") from error
        if isinstance(error, MetadataUnavailable):
            self.site.world.reached(LogProbe.UNKNOWN)

    async def tried(self, what: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """What the call returns, which may take a few; None where none succeeds."""
        for _ in range(TRIES_MAX):
            try:
                return await call()
            except LedgerError as error:
                self.expected(what, error)
                await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def opened(self) -> Log | None:
        """The log, whatever it is called at the moment."""
        return await self.tried("open", lambda: self.client.logs.open(self.site.log_name(), b""))


class LogWriterUser(LogUser):
    """Takes the log over for each term, and appends what the term says."""

    def __init__(self, site: LogSite, name: str, plan: Writer) -> None:
        super().__init__(site, name)
        self._plan = plan
        self._number = 0
        self.asked_from = 0.0

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        for number, term in enumerate(self._plan.terms):
            if self.client.is_dead:
                self.client = self.site.client(f"{self.name}.{number}")
            await self._term(term)

    async def _term(self, term: Term) -> None:
        OWNER.set(self.client.name)
        log = await self.opened()
        if log is not None:
            await self._write_as(log, term, None)

    async def _write_as(self, log: Log, term: Term, led: LeaderTerm | None) -> None:
        self.asked_from = self.site.world.now
        try:
            writer = await log.writer(self.name, term=led)
        except LedgerError as error:
            self.expected("take-over", error)
            return
        try:
            await self._write(log, writer, term)
        except LedgerError as error:
            self.expected("append", error)
            if isinstance(_reason(error), LogFenced):
                self.site.world.reached(LogProbe.FENCED)
            elif not (writer.has_ended or _was_first_producer(writer, error)):
                raise Violation("errors", f"{self.name}: {error!r}, and the writer goes on") from error
            with suppress(LedgerError):
                await writer.close()

    async def _write(self, log: Log, writer: LogWriter, term: Term) -> None:
        took = Taken(self, log, writer)
        await took.append_all(term)
        await took.end(term)

    def payloads(self, count: int) -> list[bytes]:
        """Each is another one."""
        self._number += count
        return [b"%s.%d" % (self.name.encode(), n) for n in range(self._number - count, self._number)]


def _was_first_producer(writer: LogWriter, error: LedgerError) -> bool:
    """Whether nothing was taken in, for the log's record could not be told that it has producers."""
    not_told = isinstance(error, MetadataUnavailable | OutOfOrderSequence) and not writer.producers.is_begun
    return not_told or isinstance(error, MetadataWentBack)


def _reason(error: LedgerError) -> BaseException:
    """Why the producer's earlier append failed, where that is why this one did."""
    return error.__cause__ or error if isinstance(error, OutOfOrderSequence) else error


class Taken:
    """A writer of the log, watched: what it confirms is told at once."""

    def __init__(self, user: LogWriterUser, log: Log, writer: LogWriter) -> None:
        self._user = user
        self._log = log
        self._writer = writer
        self._start = writer.next_position
        self._told = writer.confirmed_end
        self._sent: list[bytes] = []
        user.site.truth.begun(writer.epoch, self._start)
        user.site.clock_truth.took_over(writer.epoch, user.asked_from)
        user.note("has epoch %d from %d on", writer.epoch, self._start)
        writer.on_progress = self._progressed

    def _progressed(self) -> None:
        while self._told < self._writer.confirmed_end:
            payload = self._sent[self._told - self._start]
            self._user.site.truth.confirm(self._writer.epoch, self._told, payload, self._user.name)
            self._told += 1

    async def append_all(self, term: Term) -> None:
        batches = [self._user.payloads(term.records) for _ in range(term.batches)]
        await self.run_all(term, [partial(self._append, batch) for batch in batches])

    async def run_all(self, term: Term, left: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Makes these calls, so many together as the term says."""
        while left:
            now, left = left[: term.together], left[term.together :]
            appends = [asyncio.create_task(append()) for append in now]
            try:
                if term.ends == "crash" and not left:
                    await asyncio.sleep(
                        self._user.client.chance.unit() * self._user.site.plan.pace_seconds * 8
                    )
                    self._user.client.die()
                    return
                await asyncio.gather(*appends)
            finally:
                await asyncio.gather(*appends, return_exceptions=True)
            await asyncio.sleep(term.pause * self._user.client.chance.unit())

    async def _append(self, payloads: list[bytes]) -> None:
        first = self._start + len(self._sent)
        self._user.site.kept_truth.appended(first, len(payloads))
        self._user.site.clock_truth.appended(payloads)
        self._sent += payloads
        positions = await self._writer.append_batch(payloads)
        if positions != range(first, first + len(payloads)):
            raise Violation("L3", f"{self._user.name} got {positions} for what it appended at {first}")
        if self._writer.confirmed_end <= positions[-1]:
            raise Violation("L2", f"{positions} are answered, and {self._writer.confirmed_end} is confirmed")
        await self._user.one_end.told(self._log, positions[-1] + 1)

    async def end(self, term: Term) -> None:
        if len(self._writer.record.segments) > 1:
            self._user.site.world.reached(LogProbe.ROLLED)
        if term.ends == "abandon":
            await self._writer.abandon()
        elif not self._user.client.is_dead:  # nobody ends what is gone
            await self._writer.close()


class LogReaderUser(LogUser):
    """Follows the log to the end of the run; after an error it goes on where it was."""

    def __init__(self, site: LogSite, name: str, plan: Reader) -> None:
        super().__init__(site, name)
        self._plan = plan
        self.position: int | None = None

    async def run(self) -> None:
        await asyncio.sleep(self._plan.at)
        log = await self.opened()
        if log is None:
            return
        while not self.site.is_over:
            try:
                if self.position is None:
                    self.position = await (log.end() if self._plan.from_end else log.first_position())
                given_up = self.site.record().first_position
                await self._follow(log, log.tail(self.position, timeout=self._plan.timeout), given_up)
            except LogTruncated as error:
                self.note("stands at %s: %s", self.position, error)
                self.site.world.reached(LogProbe.TRUNCATED)
                if self.position is not None and error.first_position <= self.position:
                    raise Violation("L4", f"{self.name} at {self.position}: {error}") from error
                self.position = error.first_position
            except LedgerError as error:
                self.expected("tail", error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, log: Log, tail: AsyncIterator[Record], given_up: int) -> None:
        """`given_up`: what is before that was so before the tail began."""
        async with aclosing(tail) as records:  # type: ignore[type-var]
            async for record in records:
                if record.position != self.position:
                    raise Violation("L4", f"{self.name} at {self.position} got {record.position}")
                if record.position < given_up:
                    raise Violation(
                        "L4", f"{self.name} got {record.position}, of which all to {given_up} is given up"
                    )
                self.site.truth.read(record, self.name)
                self.position += 1
                await self.one_end.told(log, self.position)


class Keeper(LogUser):
    """Gives up, holds, renames and audits: what a plan's events say."""

    reads_ledgers = True

    async def truncate(self, share: float) -> None:
        log = await self.opened()
        if log is None:
            return
        with self.site.documented(self, "truncate"):
            end = await log.end()
            self.site.kept_truth.ordered(round(end * share))
            try:
                await log.truncate(round(end * share))
                self.note("gave up all to %d of %d", round(end * share), end)
            except LogHeld:
                self.site.world.reached(LogProbe.HELD)

    async def hold(self, seconds: float) -> None:
        log = await self.opened()
        if log is None:
            return
        with self.site.documented(self, "hold"):
            await log.set_legal_hold(True)
            self.note("holds")
        await asyncio.sleep(seconds)
        while True:
            try:
                await log.set_legal_hold(False)
                return
            except LedgerError as error:
                self.expected("end of hold", error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def rename(self, contested: bool) -> None:
        old, new = self.site.log_name(), f"log{self.site.next_number()}"
        contestant = asyncio.create_task(self._contest(new)) if contested else None
        try:
            with self.site.documented(self, "rename"):
                try:
                    await self.client.logs.rename(old, new)
                    self.note("renamed %s to %s", old, new)
                    self.site.world.reached(LogProbe.RENAMED)
                except LogExists:
                    self.site.world.reached(LogProbe.CONTESTED)
        finally:
            if contestant is not None:
                await contestant

    async def _contest(self, name: str) -> None:
        await asyncio.sleep(self.client.chance.unit() * 6 * self.site.plan.pace_seconds)
        with self.site.documented(self, "create"), suppress(LogExists):
            made = await self.client.logs.create(name, self.site.settings, b"")
            self.note("made another log %s", name)
            self.site.others[made.record.identity] = name

    async def sweep(self) -> None:
        with suppress(MetadataError):
            if await self.client.sweep():
                self.site.world.reached(LogProbe.SWEPT)

    async def recover_aside(self) -> None:
        log = await self.opened()
        if log is not None and log.record.last is not None:
            with self.site.documented(self, "recover"):
                await self.client.calls.open_ledger(log.record.last.ledger_id)
