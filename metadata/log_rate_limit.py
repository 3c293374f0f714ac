"""Rate-limits log lines, and counts those that were suppressed."""

from __future__ import annotations

import math


class LogRateLimit:
    """Says when a line may be logged. Belongs to one thread; `now` is any monotonic clock."""

    def __init__(self, seconds_min: float) -> None:
        """`seconds_min`: least time between two lines."""
        self._seconds_min = seconds_min
        self._told_at = -math.inf
        self._untold = 0

    def untold(self, now: float) -> int | None:
        """How many were suppressed since the last line, if another may be logged; None if not."""
        if now - self._told_at < self._seconds_min:
            self._untold += 1
            return None
        untold, self._told_at, self._untold = self._untold, now, 0
        return untold
