"""The registered bookies, as they were listed a moment ago: creations one after the other share a listing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from metadata.records import bookie_registry
from metadata.records.registration import Registration
from metadata.store import MetadataStore

KNOWN_SECONDS = 1.0
"""A listing is used for so long. Whoever died meanwhile is noticed by its connection, which ends with it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """`is_fresh`: listed just now, for whoever asked."""

    bookies: list[Registration]
    is_fresh: bool


class KnownBookies:
    """Of one client. Both methods raise MetadataError."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._listed: list[Registration] = []
        self._listed_at: float | None = None

    async def lately(self) -> Listed:
        """As known, where that is of a moment ago."""
        now = asyncio.get_running_loop().time()
        if self._listed_at is not None and now - self._listed_at < KNOWN_SECONDS:
            return Listed(self._listed, is_fresh=False)
        return await self.now()

    async def now(self) -> Listed:
        """Listed anew."""
        asked_at = asyncio.get_running_loop().time()
        self._listed = await bookie_registry.list_bookies(self._store)
        self._listed_at = asked_at
        return Listed(self._listed, is_fresh=True)
