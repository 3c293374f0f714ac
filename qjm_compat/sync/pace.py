"""How fast segments are copied."""

from __future__ import annotations

from aiolimiter import AsyncLimiter

from ..acceptor.copying import Pace

PERIOD_SECONDS = 0.25
"""What is allowed in this time may come at once: short bursts leave disk and processor to the writer in between."""


def pace_of(bytes_per_second: float) -> Pace:
    """Holds all who share it to one rate; more than fits at once takes its time in parts."""
    most = max(1.0, bytes_per_second * PERIOD_SECONDS)
    limiter = AsyncLimiter(most, PERIOD_SECONDS)

    async def pace(size: int) -> None:
        left: float = size
        while left > 0:
            step = min(left, most)
            await limiter.acquire(step)
            left -= step

    return pace
