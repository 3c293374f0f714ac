"""Base class of the blocking writers that assign ids in order: appends are handed to the loop's thread in bulk.

Entries appended while the loop is busy become one batch. Callbacks of the futures run on the loop's thread. On that
thread, an append is accepted only if there is room, because no call may wait there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast

from ..entry import ENTRY_OVERHEAD_BYTES
from ..errors import LedgerError, WriterFull
from ..loop_batching import LoopBatching
from ..loop_thread import LoopThread
from ..writing.append_futures import AppendFuture, Complete
from .back_pressure import BackPressure
from .handle import ClosedOnExit
from .twin_calls import BlockingFacade

LISTS = ("_waiters", "_done_callbacks")
"""The attributes in which concurrent.futures keeps a future's waiters and callbacks."""


class Appender(NamedTuple):
    """State that the futures of one writer share: the client's thread and a condition."""

    thread: LoopThread
    condition: threading.Condition


class AppendResult(Future[int]):
    """The future of one append. If a child process is forked before the future is done, the future never completes
    there: waiting for it raises ClientForked.

    All futures of a writer share one condition, because one condition for each would cost more than the rest of an
    append. Waiters wake up when any future completes, and keep waiting for their own future. `wait` and `as_completed`
    work as usual.
    """

    # These are class attributes until completion, to make futures cheap: there is one for every append, and most
    # are only asked for their result.
    _state = PENDING
    _result: int | None = None
    _exception = None
    _is_watched = False

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    if not TYPE_CHECKING:  # otherwise mypy would accept any misspelt attribute as a list

        def __getattr__(self, name: str) -> list[Any]:
            """Creates the lists of waiters and callbacks on first use. Callers hold the condition."""
            if name not in LISTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made: list[Any] = []
            setattr(self, name, made)
            self._is_watched = True
            return made

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._appender.condition

    def done(self) -> bool:
        """Does the same as `Future.done`. Reads the state without the lock, which is safe because the state is a single
        reference, and a future that is done stays done."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> int:
        """Does the same as `Future.result`."""
        # Reads the state without the lock, for the same reason as `done`.
        if self._state == FINISHED and self._exception is None:
            return cast(int, self._result)
        self._check_process()
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Does the same as `Future.exception`."""
        self._check_process()
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            with self._condition:
                self._condition.wait_for(self.done, timeout)

    def _check_process(self) -> None:
        if self._state != FINISHED:  # without the lock: after a fork its holder may not exist in this process
            self._appender.thread.check_process()


def complete_together(
    condition: threading.Condition, answered: Sequence[tuple[int, Sequence[AppendFuture]]]
) -> None:
    """Completes these runs of one writer's futures (see `Complete`), and wakes all waiters once.

    Cancelled futures stay cancelled. Callbacks run once all futures are done.
    """
    watched: list[AppendResult] = []
    with condition:
        for first, futures in cast("Sequence[tuple[int, Sequence[AppendResult]]]", answered):
            for entry_id, future in enumerate(futures, first):
                if future._state == PENDING:
                    future._result = entry_id
                    future._state = FINISHED
                    if future._is_watched:
                        watched.append(future)
        for future in watched:
            for waiter in future._waiters:
                waiter.add_result(future)
        condition.notify_all()
    for future in watched:
        future._invoke_callbacks()  # type: ignore[attr-defined]


R = TypeVar("R")
C = TypeVar("C", covariant=True)


class PayloadBatch(Protocol[C]):
    """Checked payloads that are appended together."""

    @property
    def payloads(self) -> Sequence[C]: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(slots=True)
class AppendRun(Generic[R]):
    """Consecutive single entries, each with a future that returns its id. If no caller waits for them, no entry has a
    future."""

    payloads: list[R] = field(default_factory=list)
    futures: list[Future[int]] = field(default_factory=list)
    size_bytes: int = 0
    are_awaited: bool = True


@dataclass(frozen=True, slots=True)
class QueuedBatch(Generic[R]):
    """A batch, and a future that returns its last id."""

    batch: PayloadBatch[R]
    future: Future[int] | None


class AppendQueue(Generic[R]):
    """The queue of appends. Callers that change it must hold the lock of the writer's `BackPressure`."""

    def __init__(self) -> None:
        self._parts: list[AppendRun[R] | QueuedBatch[R]] = []
        self._run: AppendRun[R] = AppendRun()

    def add(self, payload: R, size_bytes: int, future: Future[int] | None) -> None:
        """Adds one entry, which the caller has already checked."""
        run = self._run
        if run.are_awaited is (future is None):
            run = self._end_run(are_awaited=future is not None)
        run.payloads.append(payload)
        if future is not None:
            run.futures.append(future)
        run.size_bytes += size_bytes

    def add_batch(self, batch: PayloadBatch[R], future: Future[int] | None) -> None:
        """Adds a batch."""
        self._end_run()
        self._parts.append(QueuedBatch(batch, future))

    def take(self) -> list[AppendRun[R] | QueuedBatch[R]]:
        """Removes and returns everything queued."""
        self._end_run()
        taken, self._parts = self._parts, []
        return taken

    def _end_run(self, *, are_awaited: bool = True) -> AppendRun[R]:
        """Ends the current run, begins the next one, and returns it."""
        if self._run.payloads:
            self._parts.append(self._run)
        self._run = AppendRun(are_awaited=are_awaited)
        return self._run


T = TypeVar("T")


class AsyncBulkWriter(Protocol):
    """The part of the asyncio writers that `BulkWriter` uses."""

    on_progress: Callable[[], None]
    pending_bytes_max: int

    @property
    def failure(self) -> LedgerError | None: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def is_behind(self) -> bool: ...
    @property
    def pending_bytes(self) -> int: ...
    def raise_if_ended(self) -> None: ...
    def complete_with(self, complete: Complete) -> None: ...
    def submit_each(
        self, payloads: Sequence[Any], size_bytes: int, futures: Sequence[AppendFuture]
    ) -> None: ...
    def submit_batch(self, batch: Any, future: AppendFuture | None) -> int: ...


W = TypeVar("W", bound=AsyncBulkWriter)


class BulkWriter(ClosedOnExit, BlockingFacade[W], Generic[W, R]):
    """A writer of entries or records. The subclass checks each of them and passes its size."""

    def __init__(self, thread: LoopThread, handle: W, turn: LoopBatching, *, next_entry: int) -> None:
        """`turn`: the LoopBatching of the handle's client."""
        BlockingFacade.__init__(self, thread, handle)
        self._turn = turn
        self._bytes_max = handle.pending_bytes_max
        self._room = BackPressure(thread)
        self._handed: AppendQueue[R] = AppendQueue()
        self._next_entry = next_entry
        self._is_taking_due = False
        self._appender = Appender(thread, threading.Condition())
        thread.call_soon(self._listen)

    @property
    def failure(self) -> LedgerError | None:
        """The error that ended this writer; None if the writer is still usable, or if it was closed."""
        return self._twin.failure

    def _append_one(self, record: R, size_bytes: int) -> Future[int]:
        """Queues one record, after waiting for room if necessary."""
        self._thread.check_open()
        future, counted = AppendResult(self._appender), size_bytes + ENTRY_OVERHEAD_BYTES
        room = self._room
        with room.lock:
            if room.free_bytes <= 0 or not self._is_taking_due or self._twin.has_ended:
                room.wait_while_full(self._free_bytes)
                self._take_soon()
            room.handed_bytes += counted  # the same as `enter`, inlined to save a call
            room.free_bytes -= counted
            self._next_entry += 1
            self._handed.add(record, size_bytes, future)
        return future

    def _append_all(self, batch: PayloadBatch[R]) -> range:
        """Queues an entire batch at once, and waits until all of its records are confirmed."""
        self._thread.check_open()
        with self._room.lock:
            first, future = self._add_all(batch)
        return range(first, first if future is None else future.result() + 1)

    def _add_all(self, batch: PayloadBatch[R]) -> tuple[int, Future[int] | None]:
        """Queues a batch. Returns the first id, and the future of the last id; for an empty batch, the future is None.
        Callers hold the lock."""
        self._room.wait_while_full(self._free_bytes)
        first, count = self._next_entry, len(batch.payloads)
        if not count:
            return first, None
        future = AppendResult(self._appender)
        self._hand_over(count, batch.size_bytes + ENTRY_OVERHEAD_BYTES * count)
        self._handed.add_batch(batch, future)
        return first, future

    def _append_now(self, record: R, size_bytes: int, of: str) -> int:
        """Queues one record, or raises WriterFull."""
        self._thread.check_open()
        with self._room.lock:
            self._twin.raise_if_ended()
            if self._free_bytes() <= 0:
                raise WriterFull(of, self._bytes_max)
            self._hand_over(1, size_bytes + ENTRY_OVERHEAD_BYTES)
            self._handed.add(record, size_bytes, None)
            return self._next_entry - 1

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Calls a method of the twin, after the twin has taken in everything that was handed over before this call."""
        return self._thread.run(partial(self._after_taking, call))

    def _hand_over(self, entries: int, size_bytes: int) -> None:
        """Counts entries that are about to be queued, and makes sure that the loop's thread will take them in. Callers
        hold the lock, which determines the order of the ids."""
        self._take_soon()
        self._next_entry += entries
        self._room.enter(size_bytes)

    def _take_soon(self) -> None:
        """Makes sure that the loop's thread will soon take in everything that has been queued by then. Raises the error
        that ended the writer."""
        failure = self._twin.failure
        if failure is not None:
            raise failure
        if not self._is_taking_due:
            self._thread.call_soon(self._turn.of_thread(self._take_handed))
            self._is_taking_due = True

    def _free_bytes(self) -> int:
        """Returns the number of bytes that may be handed over now; positive for a writer that has ended, so that
        callers never wait for such a writer."""
        if self._twin.has_ended:
            return 1
        if self._twin.is_behind:
            return 0
        return self._bytes_max - self._room.handed_bytes - self._twin.pending_bytes

    # --- on the loop's thread -------------------------------------------------------------------

    def _listen(self) -> None:
        self._twin.on_progress = self._room.wake
        self._twin.complete_with(partial(complete_together, self._appender.condition))

    def _take_handed(self) -> None:
        with self._room.lock:
            handed = self._handed.take()
            self._is_taking_due = False
        for part in handed:  # without the lock: callbacks of failed futures run here
            match part:
                case AppendRun(payloads, futures, size):
                    self._take(partial(self._twin.submit_each, payloads, size, futures), futures)
                    self._room.leave(size + ENTRY_OVERHEAD_BYTES * len(payloads))
                case QueuedBatch(batch, future):
                    self._take(partial(self._twin.submit_batch, batch, future), [future])
                    self._room.leave(batch.size_bytes + ENTRY_OVERHEAD_BYTES * len(batch.payloads))

    def _take(self, submit: Callable[[], object], futures: Iterable[Future[int] | None]) -> None:
        try:
            submit()
        except LedgerError as error:
            for future in futures:
                with suppress(InvalidStateError):  # cancelled in another thread at this moment
                    if future is not None:
                        future.set_exception(error)

    async def _after_taking(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._take_handed()
        return await call()
