"""Logs slow appends with the time of each step; rate-limited."""

from __future__ import annotations

import logging

from metadata.rate_limit import LogRateLimit

from ..intake_queue import Arrival

log = logging.getLogger(__name__)

TOLD_SECONDS_MIN = 10.0
"""Minimum seconds between two log lines, however many appends are slow."""


class SlowAppends:
    """Logs slow appends. `synced` is called on the log's thread, `stored` on the event loop, soon afterwards."""

    def __init__(self, slow_seconds: float) -> None:
        """`slow_seconds`: appends that take longer, from the first byte to disk, are slow."""
        self._slow_seconds = slow_seconds
        self._seldom = LogRateLimit(TOLD_SECONDS_MIN)
        self._sync_seconds = 0.0

    def synced(self, seconds: float) -> None:
        """Records the duration of the latest group's sync."""
        self._sync_seconds = seconds

    def stored(self, ledger_id: int, arrival: Arrival, now: float) -> None:
        """Logs an append if it was slow. `now` is the loop's clock."""
        here_seconds = now - arrival.at
        seconds = here_seconds + arrival.network_seconds
        if seconds < self._slow_seconds or (untold := self._seldom.untold(now)) is None:
            return
        sync_seconds = min(here_seconds, self._sync_seconds)
        log.warning(
            "an append took %.1f s: %.1f s over the network, %.1f s in the queue, %.1f s for the sync of its group%s",
            seconds,
            arrival.network_seconds,
            here_seconds - sync_seconds,
            sync_seconds,
            f"; {untold} more slow appends since the last such line" if untold else "",
            extra={"ledger": ledger_id, "peer": arrival.peer, "client": arrival.client},
        )
