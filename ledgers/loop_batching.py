"""Batches a client's work at the end of each iteration of its event loop: first takes in appends, then sends them.

However many ledgers and bookies are involved, the loop makes only one call, and all entries appended in one iteration
are sent together. Only entries that fill a frame on their own are sent earlier, by `send_now`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class LoopBatching:
    """The end-of-iteration work of one client, on one event loop. Work requested twice is done twice."""

    def __init__(self) -> None:
        self._takes: deque[Work] = deque()
        self._sends: deque[Work] = deque()
        self._is_asked_for = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self, work: Work) -> None:
        """Runs the work at the end of this iteration, before anything is sent."""
        self._takes.append(work)
        if not self._is_asked_for:
            self._ask()

    def send(self, work: Work) -> None:
        """Runs the work at the end of this iteration, after everything is taken in."""
        self._sends.append(work)
        if not self._is_asked_for:
            self._ask()

    def expect(self) -> None:
        """Schedules the end of the iteration right after the tasks that were just woken, so that their appends are sent
        in the same iteration."""
        self._ask()

    def send_now(self) -> None:
        """Sends the entries that have been taken in, without waiting for the end of the iteration."""
        while self._sends:
            self._sends.popleft()()

    def of_thread(self, work: Work) -> Work:
        """Queues work from another thread, and returns a function for the loop to call. That function does all work
        queued in this way, and then sends."""
        self._takes.append(work)
        return self._end

    def _ask(self) -> None:
        if not self._is_asked_for:
            self._is_asked_for = True
            if self._loop is None:  # kept, because looking it up takes a system call
                self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._is_asked_for = True  # work requested from here on is done by this call
        try:
            for work in (self._takes, self._sends):
                while work:
                    work.popleft()()
        finally:
            self._is_asked_for = False
            if self._takes or self._sends:  # one item of work failed; do the rest in another call
                self._ask()
