"""Periodically checks whether a metadata store accepts changes, for a daemon that reports this."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

from ..errors import MetadataError
from .counting_store import CountingStore
from .outage import weight

LOOK_SECONDS = 10.0
"""Time between two checks; a store that refuses changes is reported within this time."""

log = logging.getLogger(__name__)


async def watch_health(store: CountingStore) -> NoReturn:
    """Keeps `store.health_seen` up to date until cancelled; logs when the store starts and stops refusing changes."""
    logged = ""
    while True:
        try:
            refuses = (await store.health()).refuses
        except MetadataError as error:
            log.log(weight(error), "the metadata store does not report its health: %s", error)
        else:
            if refuses and not logged:
                log.error("%s", refuses)
            elif logged and not refuses:
                log.warning("the metadata store accepts changes again")
            logged = refuses
        await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def watching_health(store: CountingStore) -> AsyncIterator[None]:
    """Runs `watch_health` while the block runs."""
    asking = asyncio.create_task(watch_health(store))
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.wait([asking])
