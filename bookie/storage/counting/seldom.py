"""Lines of the log that are told so often at most, and how many were not."""

from __future__ import annotations

import math


class Seldom:
    """Says when it is time for a line. Belongs to one thread; `now` is any clock that only rises."""

    def __init__(self, seconds_min: float) -> None:
        """So much is between one line and the next."""
        self._seconds_min = seconds_min
        self._told_at = -math.inf
        self._untold = 0

    def untold(self, now: float) -> int | None:
        """How many were passed over since the last line, where it is time for another; None where it is not."""
        if now - self._told_at < self._seconds_min:
            self._untold += 1
            return None
        untold, self._told_at, self._untold = self._untold, now, 0
        return untold
