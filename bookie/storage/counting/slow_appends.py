"""Appends that took long are told in the log, with where the time went: how seldom is bounded, how slow is named."""

from __future__ import annotations

import logging
import math

log = logging.getLogger(__name__)


class SlowAppends:
    """`synced` comes from the log's thread, `stored` from the event loop, soon afterwards."""

    def __init__(self, slow_seconds: float, told_seconds_min: float) -> None:
        """What takes longer from arrival to disk is worth a line; so much time is between one line and the next."""
        self._slow_seconds = slow_seconds
        self._told_seconds_min = told_seconds_min
        self._sync_seconds = 0.0
        self._told_at = -math.inf
        self._untold = 0

    def synced(self, seconds: float) -> None:
        """So long took the sync of the latest group."""
        self._sync_seconds = seconds

    def stored(self, ledger_id: int, seconds: float, now: float) -> None:
        """An append took so long. `now` is the loop's clock."""
        if seconds < self._slow_seconds:
            return
        if now - self._told_at < self._told_seconds_min:
            self._untold += 1
            return
        log.warning(
            "an append took %.1f s: %.1f s the sync of its group, the rest it waited for the log or the event loop%s",
            seconds,
            min(seconds, self._sync_seconds),
            f"; {self._untold} more were slow since the last such line" if self._untold else "",
            extra={"ledger": ledger_id},
        )
        self._told_at, self._untold = now, 0
