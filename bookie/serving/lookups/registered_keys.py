"""Authenticates other bookies by the keys in their registrations, which only bookies may write."""

from __future__ import annotations

import asyncio
import hmac
import logging

from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.records.cluster import list_bookies
from metadata.store import MetadataStore

log = logging.getLogger(__name__)

LOOK_SECONDS_MIN = 1.0
"""Rate limit: minimum time between reads of the registrations, however many unknown keys arrive."""

LOOK_SECONDS_MAX = 3.0
"""Time limit of a read; after that, the key counts as unknown."""

KNOWN_SECONDS_MAX = 60.0
"""Maximum age of cached registrations: beyond that, a bookie may be gone."""


class RegisteredKeys:
    """Keys of live bookies, cached. Belongs to one event loop."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._keys: list[bytes] = []
        self._looked_at = self._seen_at = float("-inf")
        self._looking = asyncio.Lock()

    async def hold(self, key: bytes) -> bool:
        """Returns whether a live bookie has this key. Reads the registrations again if the key is unknown, because the
        bookie may have just started."""
        if self._knows(key):
            return True
        asked_at = self._now()
        async with self._looking:
            if self._looked_at < asked_at:  # otherwise a read has begun since this call
                await asyncio.sleep(max(0.0, self._looked_at + LOOK_SECONDS_MIN - self._now()))
                await self._look()
        return self._knows(key)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _knows(self, key: bytes) -> bool:
        is_fresh = self._now() - self._seen_at < KNOWN_SECONDS_MAX
        return is_fresh and any(hmac.compare_digest(key, one) for one in self._keys)

    async def _look(self) -> None:
        self._looked_at = began = self._now()
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                found = await list_bookies(self._store)
        except (MetadataError, TimeoutError) as error:
            log.log(weight(error), "cannot look up the key of a bookie that re-replicates: %s", error)
            return  # the cached keys stay valid while they are fresh
        self._seen_at = began
        self._keys = [one.reading_key for one in found if one.reading_key]
