"""Measures event loop lag: how late a daemon's event loop runs, which delays everything that the daemon does.

The command that runs the daemon measures it, because the daemon itself reads only the clock that it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from metadata.counting.metric_declarations import MetricTable

LOOK_SECONDS = 0.25
"""The interval between measurements; their cost is negligible."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

METRICS = MetricTable("event_loop", "The event loop of a daemon")

LAG = METRICS.histogram(
    "lag_seconds",
    "How late the event loop woke up; everything on the loop is delayed by as much.",
    SECONDS,
)


@asynccontextmanager
async def watching_lag(registry: CollectorRegistry) -> AsyncIterator[None]:
    """Measures the loop's lag inside the block."""
    lag = LAG.histogram_in(registry)

    async def watch() -> None:
        now = asyncio.get_running_loop().time
        while True:
            due = now() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            lag.observe(max(0.0, now() - due))

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
