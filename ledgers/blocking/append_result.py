"""The future of one append, and how many of them are completed at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from typing import cast

from ..loop_thread import LoopThread
from ..writing.answers import AppendFuture


class AppendResult(Future[int]):
    """Of one append. In a child that is forked before it is done nobody completes it: asking it raises ClientForked.

    All futures of a writer share one condition: to make one for each costs more than all the rest of an append. Those
    who wait are woken with others that are done, and go on waiting. `wait` and `as_completed` work as ever.
    """

    def __init__(self, thread: LoopThread, condition: threading.Condition) -> None:
        self._condition = condition
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: list[Callable[[Future[int]], object]] = []
        self._thread = thread

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
            self._thread.check_process()


def complete_together(condition: threading.Condition, answered: Iterable[tuple[int, AppendFuture]]) -> None:
    """Gives each of these futures of one writer its entry id, and wakes whoever waits for any of them, once.

    One that was cancelled stays so. Callbacks run when all are done.
    """
    called_back = []
    with condition:
        for entry_id, one in answered:
            future = cast("AppendResult", one)
            if future._state == PENDING:
                future._result = entry_id
                future._state = FINISHED
                for waiter in future._waiters:
                    waiter.add_result(future)
                if future._done_callbacks:
                    called_back.append(future)
        condition.notify_all()
    for future in called_back:
        future._invoke_callbacks()  # type: ignore[attr-defined]
