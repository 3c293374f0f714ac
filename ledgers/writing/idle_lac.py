"""Sends an idle writer's last-add-confirmed to the bookies, because no frame of entries carries it."""

from __future__ import annotations

from collections.abc import Callable

from ..shared_timer import SharedTimer


class IdleLac:
    """Sends the LAC a single time when nothing has been confirmed or appended between two checks, that is, at most two
    intervals after the last confirmation.

    Sends it again when a bookie joins, because that bookie receives no frame of confirmed entries.
    """

    def __init__(
        self,
        later: SharedTimer,
        last_add_confirmed: Callable[[], int],
        is_idle: Callable[[], bool],
        send_lac: Callable[[], object],
    ) -> None:
        self._later = later
        self._last_add_confirmed = last_add_confirmed
        self._is_idle = is_idle
        self._send_lac = send_lac
        self._sent_through = self._seen = -1
        self._is_waiting = False
        self._has_stopped = False

    def confirmed(self) -> None:
        """Called when further entries have been confirmed."""
        if not self._is_waiting and self._is_idle() and self._sent_through < self._last_add_confirmed():
            self._wait()

    def has_joined(self) -> None:
        """Called when a bookie has joined that may not have the LAC."""
        self._sent_through = -1
        self.confirmed()

    def stop(self) -> None:
        """Stops sending."""
        self._has_stopped = True

    def _wait(self) -> None:
        self._is_waiting, self._seen = True, self._last_add_confirmed()
        self._later.call(self._look)

    def _look(self) -> None:
        self._is_waiting = False
        if self._has_stopped or not self._is_idle():
            return
        if self._seen != self._last_add_confirmed():  # the writer is only momentarily idle
            self._wait()
            return
        self._sent_through = self._seen
        self._send_lac()
