"""Rate limits of background work and of log lines."""

from __future__ import annotations

import math

from aiolimiter import AsyncLimiter

PERIOD_SECONDS = 0.25
"""Length of a burst: all units allowed in this period may be used at once. The disk and the processor are then free
until the next period."""

LEDGERS_PER_SECOND = 1000.0
"""Maximum number of ledgers per second that a garbage collection, or a comparison with the metadata, reads. A higher
rate would noticeably load the metadata store."""


class RateLimit:
    """A rate limit, in units per second, shared by all its users."""

    def __init__(self, per_second: float) -> None:
        self._most = max(1.0, per_second * PERIOD_SECONDS)
        self._limiter = AsyncLimiter(self._most, PERIOD_SECONDS)

    async def keep(self, units: float) -> None:
        """Waits until the rate limit permits `units`, in several steps if they are more than one burst."""
        while units > 0:
            step = min(units, self._most)
            await self._limiter.acquire(step)
            units -= step


class LogRateLimit:
    """Decides whether a log line may be written, and counts suppressed lines. Belongs to one thread; `now` is any
    monotonic clock."""

    def __init__(self, seconds_min: float) -> None:
        """`seconds_min`: minimum time between two lines."""
        self._seconds_min = seconds_min
        self._logged_at = -math.inf
        self._suppressed = 0

    def admit(self, now: float) -> int | None:
        """Returns the number of lines suppressed since the last logged one, if another line may be logged now; None
        otherwise."""
        if now - self._logged_at < self._seconds_min:
            self._suppressed += 1
            return None
        suppressed, self._logged_at, self._suppressed = self._suppressed, now, 0
        return suppressed
