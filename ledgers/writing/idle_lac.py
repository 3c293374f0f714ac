"""Telling the bookies the last-add-confirmed of an idle writer: no frame of entries carries it to them."""

from __future__ import annotations

from collections.abc import Callable

from ..later import Later


class IdleLac:
    """Has it told once, when nothing was confirmed or appended since a look before: within twice the time of a look.

    Once more when a bookie joins, to which no frame of confirmed entries is sent.
    """

    def __init__(
        self,
        later: Later,
        last_add_confirmed: Callable[[], int],
        is_idle: Callable[[], bool],
        tell: Callable[[], object],
    ) -> None:
        self._later = later
        self._last_add_confirmed = last_add_confirmed
        self._is_idle = is_idle
        self._tell = tell
        self._told = self._seen = -1
        self._is_waiting = False
        self._has_stopped = False

    def confirmed(self) -> None:
        """More was confirmed."""
        if not self._is_waiting and self._is_idle() and self._told < self._last_add_confirmed():
            self._wait()

    def has_joined(self) -> None:
        """A bookie came that may have been told nothing."""
        self._told = -1
        self.confirmed()

    def stop(self) -> None:
        """Nothing will be told any more."""
        self._has_stopped = True

    def _wait(self) -> None:
        self._is_waiting, self._seen = True, self._last_add_confirmed()
        self._later.call(self._look)

    def _look(self) -> None:
        self._is_waiting = False
        if self._has_stopped or not self._is_idle():
            return
        if self._seen != self._last_add_confirmed():  # it is at work, and idle only at this moment
            self._wait()
            return
        self._told = self._seen
        self._tell()
