"""Caches the list of registered bookies for a moment, so that successive creations share one listing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from metadata.records.cluster import list_bookies
from metadata.records.registration import Registration
from metadata.store import MetadataStore

KNOWN_SECONDS = 1.0
"""How long a listing is reused. If a bookie dies in the meantime, its connection is closed, so its death is noticed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A listing of bookies. `is_fresh`: whether it was made just now, for this caller."""

    bookies: list[Registration]
    is_fresh: bool


class KnownBookies:
    """One client's cached listing of bookies. Both methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._listed: list[Registration] = []
        self._listed_at: float | None = None

    async def lately(self) -> Listed:
        """Returns the cached listing if it is recent enough, else a new one."""
        now = asyncio.get_running_loop().time()
        if self._listed_at is not None and now - self._listed_at < KNOWN_SECONDS:
            return Listed(self._listed, is_fresh=False)
        return await self.now()

    async def now(self) -> Listed:
        """Lists the bookies again."""
        asked_at = asyncio.get_running_loop().time()
        self._listed = await list_bookies(self._store)
        self._listed_at = asked_at
        return Listed(self._listed, is_fresh=True)
