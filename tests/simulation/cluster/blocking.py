"""Users in ordinary code: the blocking client, its thread, and an application's thread that waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ledgers import LedgerClient, LedgerError
from ledgers.blocking.client import WriteHandle
from tests.simulation.engine.app_threads import AppThreads
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.world import Violation
from tests.simulation.shells.actors import CREATE_TRIES_MAX, PAUSE_SECONDS_MAX, Setting
from tests.simulation.shells.adapters import call_on_progress
from tests.simulation.shells.watch import WatchedLedger

T = TypeVar("T")


class BlockingUser:
    """`run` is called on a thread of its own."""

    def __init__(
        self, name: str, setting: Setting, threads: AppThreads, client: LedgerClient, of: str
    ) -> None:
        self.name = name
        self.setting = setting
        self.threads = threads
        self.client = client
        self._of = of
        self.chance: Stream = setting.site.world.stream(name)

    def run(self) -> None:
        raise NotImplementedError

    def note(self, what: str, *details: object) -> None:
        self.setting.site.world.note(f"{self.name} {what}", *details)

    def pause(self) -> None:
        self.threads.sleep(self.chance.unit() ** 2 * PAUSE_SECONDS_MAX)

    def attempt(self, what: str, work: Callable[[], T]) -> T | LedgerError | None:
        """What the call returns, or its documented error; None where it was interrupted."""
        thread = self.threads.current
        assert thread is not None
        timer = None
        if self.chance.happens(self.setting.cancels_share):
            timer = self.setting.site.loop.call_later(self.chance.unit() ** 3 * 3.0, thread.interrupted)
        try:
            result = work()
        except LedgerError as error:
            self.note("%s: %s", what, type(error).__name__)
            return error
        except KeyboardInterrupt:
            self.note("%s: interrupted", what)
            return None
        finally:
            thread.interrupt = None if thread.interrupt is KeyboardInterrupt else thread.interrupt
            if timer is not None:
                timer.cancel()
        self.note("%s: done", what)
        return result


class BlockingWriter(BlockingUser):
    """Creates a ledger, appends in both ways, and closes it, or only leaves."""

    def run(self) -> None:
        handle = self._create()
        if handle is None:
            return self.setting.board.tell(self.name, None)
        self.watched = self.setting.watch[handle.ledger_id]
        self._waiting: list[tuple[bytes, Future[int]]] = []
        self._payloads = 0
        self.setting.board.tell(self.name, handle.ledger_id)
        handle._thread.call_soon(lambda: self._watch(handle))
        for _ in range(4 + self.chance.below(12)):
            if isinstance(self._step(handle), LedgerError):
                break
            self.pause()
        return self._end(handle)

    def _watch(self, handle: WriteHandle) -> None:
        """On the client's thread, before anything is appended."""
        self._writer = handle._twin
        call_on_progress(self._writer, self._confirmed)

    def _confirmed(self) -> None:
        try:
            self.watched.confirmed(self._writer.last_add_confirmed)
        except Violation as violation:
            self.setting.site.loop.problems.append(str(violation))

    def _create(self) -> WriteHandle | None:
        new = self.setting.new_ledger
        for _ in range(CREATE_TRIES_MAX):
            made = self.attempt(
                "create",
                lambda: self.client.create_ledger(
                    ensemble_size=new.ensemble_size,
                    write_quorum=new.write_quorum,
                    ack_quorum=new.ack_quorum,
                    digest=new.digest,
                    password=new.password,
                ),
            )
            if isinstance(made, WriteHandle):
                return made
            self.pause()
        return None

    def _step(self, handle: WriteHandle) -> object:
        payload = self._payload()
        match self.chance.below(4):
            case 0:
                entry_id = self.attempt("append", lambda: handle.append(payload))
                if isinstance(entry_id, int):
                    self.watched.appended_as(self.name, entry_id, payload)
                return entry_id
            case 1:
                due = list(self._waiting)
                flushed = self.attempt("flush", _done(handle.flush))
                if isinstance(flushed, tuple):
                    self._must_be_confirmed("flush", due)
                return flushed
            case _:
                for _ in range(1 + self.chance.below(4)):
                    payload = self._payload()
                    future = self.attempt("append_async", lambda p=payload: handle.append_async(p))  # type: ignore[misc]
                    if not isinstance(future, Future):
                        return future
                    self._keep(payload, future)
                return None

    def _keep(self, payload: bytes, future: Future[int]) -> None:
        self._waiting.append((payload, future))
        future.add_done_callback(lambda done: self._completed(payload, done))

    def _completed(self, payload: bytes, future: Future[int]) -> None:
        """On the client's thread, before it says that it has made progress."""
        self._confirmed()
        if not future.cancelled() and future.exception() is None:
            try:
                self.watched.appended_as(self.name, future.result(), payload)
            except Violation as violation:
                self.setting.site.loop.problems.append(str(violation))

    def _must_be_confirmed(self, what: str, due: list[tuple[bytes, Future[int]]]) -> None:
        for payload, future in due:
            if not future.done():
                raise Violation("flush", f"{self.name}: {what} returned before {payload!r} was confirmed")

    def _payload(self) -> bytes:
        self._payloads += 1
        return f"{self.name} {self._payloads}".encode()

    def _end(self, handle: WriteHandle) -> None:
        if self.chance.happens(0.6):
            due = list(self._waiting)
            closed = self.attempt("close", _done(handle.close))
            if isinstance(closed, tuple):
                self._must_be_confirmed("close", due)
                self.watched.ended(self.name, handle.record)
        self.note("closes its client")
        self.client.close()
        ids = [future.result() for _, future in self._waiting if future.done() and not _has_failed(future)]
        if ids != sorted(ids):
            raise Violation("ids", f"{self.name}'s appends have the ids {ids}, in the order of its calls")
        left = [payload for payload, future in self._waiting if not future.done()]
        if left:
            raise Violation("liveness", f"{self.name}: {len(left)} appends are never answered")


def _done(call: Callable[[], None]) -> Callable[[], tuple[()]]:
    """It, with a result that is none of an interrupted call."""

    def work() -> tuple[()]:
        call()
        return ()

    return work


def _has_failed(future: Future[int]) -> bool:
    return future.cancelled() or future.exception() is not None


class BlockingFollower(BlockingUser):
    """Follows a ledger to its close, beginning again where it was whenever that fails."""

    def run(self) -> None:
        while self._of not in self.setting.board.ledgers:
            self.pause()
        ledger_id = self.setting.board.ledgers[self._of]
        if ledger_id is not None:
            self._next = 0
            self._follow(ledger_id, self.setting.watch[ledger_id])
        self.client.close()

    def _follow(self, ledger_id: int, watched: WatchedLedger) -> None:
        while not watched.is_deleted:
            ended = self.attempt("tail", lambda: self._tail(ledger_id, watched))
            if isinstance(ended, tuple):
                if not watched.record.is_closed or self._next != watched.last_entry + 1:
                    raise Violation("tail", f"{self.name} ended before {self._next}")
                return
            self.pause()

    def _tail(self, ledger_id: int, watched: WatchedLedger) -> tuple[()]:
        reader = self.client.open_ledger(ledger_id, recovery=False, password=self.setting.password)
        for entry in reader.tail(self._next):
            if entry.entry_id != self._next:
                raise Violation("I10", f"{self.name} was given {entry.entry_id} in place of {self._next}")
            self._next += 1
            watched.returned(self.name, entry.entry_id, entry.payload)
        return ()
