"""The clock by which the holder of a lease judges the lease. It keeps running while the machine is suspended, as the
store's clock may."""

from __future__ import annotations

import asyncio
import time


def now() -> float:
    """Returns the time by the running loop's clock, which a simulation sets, plus the time for which the machine was
    suspended, in seconds."""
    suspended = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return asyncio.get_running_loop().time() + round(
        suspended, 3
    )  # rounds off the time that passed between the two readings
