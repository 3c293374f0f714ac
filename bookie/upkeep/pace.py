"""How fast work in the background goes."""

from __future__ import annotations

from aiolimiter import AsyncLimiter

PERIOD_SECONDS = 0.25
"""What is allowed in this time may come at once: short bursts leave the disk to others in between."""


class Pace:
    """A rate, in units a second. `keep` returns when so many more may be done."""

    def __init__(self, per_second: float) -> None:
        self._most = max(1.0, per_second * PERIOD_SECONDS)
        self._limiter = AsyncLimiter(self._most, PERIOD_SECONDS)

    async def keep(self, units: float) -> None:
        """Waits until so many units fit the rate; more than fit at once take their time in parts."""
        while units > 0:
            step = min(units, self._most)
            await self._limiter.acquire(step)
            units -= step
