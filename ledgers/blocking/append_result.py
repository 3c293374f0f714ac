"""Futures of appends in the blocking client, and their completion in bulk."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..loop_thread import LoopThread
from ..writing.append_futures import AppendFuture

LISTS = ("_waiters", "_done_callbacks")
"""The attributes in which concurrent.futures keeps a future's waiters and callbacks."""


class Appender(NamedTuple):
    """State that the futures of one writer share: the client's thread and a condition."""

    thread: LoopThread
    condition: threading.Condition


class AppendResult(Future[int]):
    """The future of one append. If a child process is forked before the future is done, it never completes there:
    waiting raises ClientForked.

    All futures of a writer share one condition, because a condition each would cost more than the rest of an append.
    Waiters wake when any of them completes, and go on waiting for theirs. `wait` and `as_completed` work as usual.
    """

    # Class attributes until completion: a future is made for every append, and most are only
    # asked for their result.
    _state = PENDING
    _result: int | None = None
    _exception = None
    _is_watched = False

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    if not TYPE_CHECKING:  # or mypy would take every misspelt attribute for a list

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
        """As `Future.done`. Reads the state without the lock, because it is one word and never goes back."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> int:
        """As `Future.result`."""
        if self._state == FINISHED and self._exception is None:  # without the lock: as for `done`
            return cast(int, self._result)
        self._check_process()
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `Future.exception`."""
        self._check_process()
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            with self._condition:
                self._condition.wait_for(self.done, timeout)

    def _check_process(self) -> None:
        if self._state != FINISHED:  # without the lock: its holder may not be in this process
            self._appender.thread.check_process()


def complete_together(
    condition: threading.Condition, answered: Sequence[tuple[int, Sequence[AppendFuture]]]
) -> None:
    """Completes these runs of futures of one writer (`Complete`), and wakes all waiters once.

    Cancelled futures stay cancelled. Callbacks run when all futures are done.
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
