"""Rate limit of background work."""

from __future__ import annotations

from aiolimiter import AsyncLimiter

PERIOD_SECONDS = 0.25
"""Burst: the amount of this time may come at once, which leaves disk and processor to others in between."""

LEDGERS_PER_SECOND = 1000.0
"""Ledgers that a collection, or a comparison with the metadata, looks at: more would be felt in the metadata store."""


class RateLimit:
    """A rate limit, in units a second, for all who share it."""

    def __init__(self, per_second: float) -> None:
        self._most = max(1.0, per_second * PERIOD_SECONDS)
        self._limiter = AsyncLimiter(self._most, PERIOD_SECONDS)

    async def keep(self, units: float) -> None:
        """Waits until so many units fit the rate; splits more than fit at once."""
        while units > 0:
            step = min(units, self._most)
            await self._limiter.acquire(step)
            units -= step
