"""Telling the bookies the last-add-confirmed of an idle writer: no frame of entries carries it to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class IdleLac:
    """Has it told once, `seconds` after the last confirmation, if nothing was appended meanwhile."""

    def __init__(
        self,
        seconds: float,
        last_add_confirmed: Callable[[], int],
        is_idle: Callable[[], bool],
        tell: Callable[[], object],
    ) -> None:
        self._seconds = seconds
        self._last_add_confirmed = last_add_confirmed
        self._is_idle = is_idle
        self._tell = tell
        self._told = -1
        self._timer: asyncio.TimerHandle | None = None

    def confirmed(self) -> None:
        """More was confirmed."""
        if self._timer is None and self._is_idle() and self._told < self._last_add_confirmed():
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._time_is_up)

    def stop(self) -> None:
        """Nothing will be told any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        if self._is_idle():
            self._told = self._last_add_confirmed()
            self._tell()
