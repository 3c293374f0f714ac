"""Logs slow appends, with where the time went; rate-limited."""

from __future__ import annotations

import logging

from .seldom import Seldom

log = logging.getLogger(__name__)


class SlowAppends:
    """Logs slow appends. `synced` is called on the log's thread, `stored` on the event loop, soon afterwards."""

    def __init__(self, slow_seconds: float, told_seconds_min: float) -> None:
        """`slow_seconds`: from arrival to disk, past which an append is slow; `told_seconds_min`: between two lines."""
        self._slow_seconds = slow_seconds
        self._seldom = Seldom(told_seconds_min)
        self._sync_seconds = 0.0

    def synced(self, seconds: float) -> None:
        """Notes how long the sync of the latest group took."""
        self._sync_seconds = seconds

    def stored(self, ledger_id: int, seconds: float, now: float) -> None:
        """Logs an append if it was slow. `now` is the loop's clock."""
        if seconds < self._slow_seconds or (untold := self._seldom.untold(now)) is None:
            return
        log.warning(
            "an append took %.1f s: %.1f s the sync of its group, the rest it waited for the log or the event loop%s",
            seconds,
            min(seconds, self._sync_seconds),
            f"; {untold} more were slow since the last such line" if untold else "",
            extra={"ledger": ledger_id},
        )
