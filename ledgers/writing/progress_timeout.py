"""A progress timeout that does not count time in which this process was suspended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..tasks import was_suspended


class ProgressClock:
    """Calls `on_overdue` after `seconds_max` without progress while anything is waiting. Belongs to one event loop."""

    def __init__(self, seconds_max: float, waits: Callable[[], bool], on_overdue: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds_max = seconds_max
        self._waits = waits
        self._on_overdue = on_overdue
        self._progress_at = self._due = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def progressed(self) -> None:
        """Restarts the time limit, because there was progress."""
        self._progress_at = self._loop.time()

    def begins(self) -> None:
        """Called before something starts to wait. Restarts the time limit if nothing is waiting yet."""
        if not self._waits():
            self.progressed()

    def start(self) -> None:
        """Starts the timer, because something is waiting from now on."""
        if self._timer is None:
            self._due = self._loop.time()
            self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not self._waits():
            return
        if was_suspended(self._due):
            self.progressed()
        left = self._progress_at + self._seconds_max - self._loop.time()
        if left <= 0:
            self._on_overdue()
        else:
            self._due = self._loop.time() + left
            self._timer = self._loop.call_at(self._due, self._look)
