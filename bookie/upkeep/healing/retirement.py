"""Deletes the tombstones of ledgers that no bookie stores any longer (`metadata/healing/collection_progress.py`)."""

from __future__ import annotations

import asyncio

from metadata.backup import hold
from metadata.healing import collection_progress
from metadata.records import ledger_ids
from metadata.records.ledger_record import Tombstone
from metadata.store import MetadataStore

LOOK_AGAIN_SECONDS = 10.0
"""Seconds between two checks of the bookies' progress while tombstones wait for them."""

RETIRED_AT_ONCE_MAX = 2000
"""Maximum number of tombstones deleted per poll; deleting them takes the metadata store a few tenths of a second."""

WAITING_MAX = 50_000
"""Maximum number of tombstones kept in memory, at 250 bytes each; a later audit finds any others."""


class Retirement:
    """The tombstones that an auditor has seen in its audits. Belongs to the event loop.

    Each is kept for `tombstone_seconds` after it was first seen: a client whose request to create a ledger gets no
    answer repeats it for 30 s, and the request must not succeed again after the ledger's deletion.
    """

    def __init__(self, store: MetadataStore, tombstone_seconds: float) -> None:
        self._store = store
        self._tombstone_seconds = tombstone_seconds
        self._waiting: dict[int, tuple[int, float]] = {}
        self._due_at = 0.0
        self._has_more = False

    @staticmethod
    def _seconds() -> float:
        return asyncio.get_running_loop().time()

    def see(self, tombstone: Tombstone) -> None:
        """Remembers an existing tombstone."""
        if len(self._waiting) >= WAITING_MAX:
            self._has_more = True
        else:
            seen = tombstone.version, self._seconds()
            self._waiting.setdefault(tombstone.ledger_id, seen)

    async def look(self) -> bool:
        """Deletes tombstones of ledgers that all bookies have dropped; returns whether another audit would find more.
        Raises MetadataError."""
        now = self._seconds()
        if now < self._due_at or not self._waiting:
            return False
        self._due_at = now + LOOK_AGAIN_SECONDS
        old = {
            n: version for n, (version, at) in self._waiting.items() if at <= now - self._tombstone_seconds
        }
        if not old or await hold.read(self._store) is not None:
            return False
        passed = await collection_progress.passed_by_all(self._store)
        end = await ledger_ids.counted_end(self._store)
        ready = sorted(n for n, version in old.items() if version <= passed and n < end)[:RETIRED_AT_ONCE_MAX]
        if not ready:
            return False
        await collection_progress.retire(self._store, {n: old[n] for n in ready})
        for ledger_id in ready:
            del self._waiting[ledger_id]
        self._due_at = now
        if self._waiting or not self._has_more:
            return False
        self._has_more = False
        return True
