"""Polls the metadata for work, and goes on after errors: the loop of whoever heals or moves copies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from metadata.counting.outage import weight
from metadata.errors import MetadataError

from ...errors import BookieError, LogFailed

LOOK_SECONDS = 5.0
"""How often a bookie looks in the metadata for what is to be done: one listing of what is mostly nothing."""


async def poll(look_once: Callable[[], Awaitable[object]], log: logging.Logger, what: str) -> None:
    """Calls `look_once` every LOOK_SECONDS until cancelled, or until the log has failed.

    An error is logged, as an interruption of `what`, and the next look tries again.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await look_once()
        except LogFailed:
            return  # the process is about to end
        except (BookieError, MetadataError, OSError) as error:
            log.log(weight(error), "%s was interrupted, and will be tried again: %s", what, error)
