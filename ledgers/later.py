"""One timer for many things that wait for the same time each: they come up in the order they came in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Later:
    """Calls what it is given, each after the same time, on one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def call(self, what: Callable[[], None]) -> None:
        """Calls it after `seconds`."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._seconds
        self._waiting.append((due, what))
        if self._timer is None:
            self._timer = loop.call_at(due, self._ring)

    def stop(self) -> None:
        """Nothing more is called."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        try:
            for _ in range(len(self._waiting)):  # what asks to be called once more is called another time
                if not self._waiting or self._waiting[0][0] > now:
                    break
                self._waiting.popleft()[1]()
        finally:  # where one has failed, the others are called all the same
            self._timer = loop.call_at(self._waiting[0][0], self._ring) if self._waiting else None
