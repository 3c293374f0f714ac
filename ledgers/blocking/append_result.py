"""The future of one append, and how many of them are completed at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..loop_thread import LoopThread
from ..writing.answers import AppendFuture

WAITERS, CALLBACKS = "_waiters", "_done_callbacks"
LISTS = (WAITERS, CALLBACKS)
"""What concurrent.futures keeps in each future."""


class Appender(NamedTuple):
    """Whose futures they are: the client's thread, and the condition that all futures of one writer share."""

    thread: LoopThread
    condition: threading.Condition


class AppendResult(Future[int]):
    """Of one append. In a child that is forked before it is done nobody completes it: asking it raises ClientForked.

    All futures of a writer share one condition: to make one for each costs more than all the rest of an append. Those
    who wait are woken with others that are done, and go on waiting. `wait` and `as_completed` work as ever.
    """

    # Until something else is known they are the class's own: one is made for every append, and most of them are only
    # asked for their result.
    _state = PENDING
    _result: int | None = None
    _exception = None

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    if not TYPE_CHECKING:  # or every slip of the pen would be a list

        def __getattr__(self, name: str) -> list[Any]:
            """The lists of those who wait for it, made when somebody comes. Whoever asks holds the condition."""
            if name not in LISTS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made: list[Any] = []
            self.__dict__[name] = made
            return made

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._appender.condition

    def done(self) -> bool:
        """See `Future.done`. The state is looked at without the lock: it is one word, and never goes back."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> int:
        """See `Future.result`."""
        self._check_process()
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Future.exception`."""
        self._check_process()
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            with self._condition:
                self._condition.wait_for(self.done, timeout)

    def _check_process(self) -> None:
        if self._state != FINISHED:  # without the lock, whose holder may not be in this process
            self._appender.thread.check_process()


def complete_together(condition: threading.Condition, answered: Iterable[tuple[int, AppendFuture]]) -> None:
    """Gives each of these futures of one writer its entry id, and wakes whoever waits for any of them, once.

    One that was cancelled stays so. Callbacks run when all are done.
    """
    called_back = []
    with condition:
        for entry_id, future in cast("Iterable[tuple[int, AppendResult]]", answered):
            if future._state == PENDING:
                future._result = entry_id
                future._state = FINISHED
                there = future.__dict__
                if WAITERS in there:
                    for waiter in future._waiters:
                        waiter.add_result(future)
                if CALLBACKS in there:
                    called_back.append(future)
        condition.notify_all()
    for future in called_back:
        future._invoke_callbacks()  # type: ignore[attr-defined]
