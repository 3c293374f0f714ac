"""Repeats work periodically, and continues after errors: the loop used by all background work that polls for tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from metadata.counting.outage import weight
from metadata.errors import MetadataError

from ..errors import BookieError, LogFailed

LOOK_SECONDS = 5.0
"""Seconds between a bookie's polls of the metadata for work: each poll is one listing, which is usually empty."""


async def poll(
    look_once: Callable[[], Awaitable[object]],
    log: logging.Logger,
    failed: str,
    *,
    seconds: float = LOOK_SECONDS,
    first_seconds: float = LOOK_SECONDS,
    pause_seconds: float = LOOK_SECONDS,
) -> None:
    """Calls `look_once` until cancelled, or until the log has failed: first after `first_seconds`, then `seconds` after
    the start of the previous call, but no sooner than `pause_seconds` after its end.

    Logs an error with the prefix `failed`, and tries again at the next call.
    """
    loop = asyncio.get_running_loop()
    next_at = loop.time() + first_seconds
    while True:
        await asyncio.sleep(max(0.0, next_at - loop.time()))
        next_at = loop.time() + seconds
        try:
            await look_once()
        except LogFailed:
            return  # the process is about to end
        except (BookieError, MetadataError, OSError) as error:
            log.log(weight(error), "%s: %s", failed, error)
        next_at = max(next_at, loop.time() + pause_seconds)
