"""A fixed-delay timer shared by many callbacks, which run in the order they were scheduled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class SharedTimer:
    """Calls each function it is given after the same delay, using a single timer on one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def call(self, what: Callable[[], None]) -> None:
        """Schedules `what` to be called `seconds` from now."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._seconds
        self._waiting.append((due, what))
        if self._timer is None:
            self._timer = loop.call_at(due, self._ring)

    def stop(self) -> None:
        """Cancels all scheduled calls."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for _ in range(len(self._waiting)):  # calls scheduled in the meantime run later
                if not self._waiting or self._waiting[0][0] > now:
                    break
                self._waiting.popleft()[1]()
        finally:  # a failed call does not prevent the others
            self._timer = loop.call_at(self._waiting[0][0], self._ring) if self._waiting else None
