"""Allocates ids for new ledgers from the cluster's counter, a block at a time."""

from __future__ import annotations

import asyncio
from collections import deque

from metadata.backup import hold
from metadata.errors import MetadataRestored
from metadata.records.ledger_ids import take_ledger_ids
from metadata.store import MetadataStore

BLOCK_IDS_MAX = 64
"""Maximum size of a block. A client's first block has a single id, so that a client that creates one ledger leaves no
gap."""

BLOCK_SECONDS_MAX = 10.0
"""Unused ids older than this are skipped, so that ledgers created at about the same time have ids close together."""


class IdBlock:
    """One client's block of ids. A client's ids increase, are never used twice, and may have gaps. If two clients have
    blocks, the client with the older block may assign its lower ids after the other client has assigned higher ones."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._taking = asyncio.Lock()
        self._ids: deque[int] = deque()
        self._taken_at = 0.0
        self._size = 1

    async def next(self) -> int:
        """Returns the next id. Raises MetadataError, or MetadataRestored if the counter may be older than the bookies'
        entries."""
        async with self._taking:  # one client's creations take turns instead of conflicting
            now = asyncio.get_running_loop().time()
            is_old = now - self._taken_at > BLOCK_SECONDS_MAX
            if is_old or not self._ids:
                size = 1 if is_old else min(BLOCK_IDS_MAX, self._size * 2)
                self._ids.clear()  # the old ids must not be used if the cluster turns out to be on hold
                self._ids.extend(await self._taken(size))
                self._size, self._taken_at = size, now
            return self._ids.popleft()

    async def _taken(self, size: int) -> range:
        try:
            return await take_ledger_ids(self._store, size)
        except MetadataRestored:
            await hold.check_accepted(self._store)  # raises a more detailed error if a restore is unfinished
            raise
