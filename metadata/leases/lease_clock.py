"""The clock by which the holder of a lease judges whether the lease is still valid. It keeps running while the machine
is suspended, because the store's clock may do so, too."""

from __future__ import annotations

import asyncio
import time


def now() -> float:
    """Returns the running loop's time (virtual in a simulation) plus the time for which the machine was suspended, in
    seconds."""
    suspended = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return asyncio.get_running_loop().time() + round(
        suspended, 3
    )  # rounds off the time that passed between the two readings
