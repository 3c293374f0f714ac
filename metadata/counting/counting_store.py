"""A metadata store wrapper that counts and times calls, for metrics, and logs outages."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable
from typing import TypeVar

from ..errors import MetadataError
from ..store import PAGE_KEYS_MAX, Lease, MetadataStore, Page, StoreHealth, Versioned, WatchEvent
from ..version import Version
from .facts import Finding, of_store
from .outage import Outage

T = TypeVar("T")

DONE = "done"
"""Outcome of a call that was answered. For any other call, the outcome is the name of the error."""


class Counts:
    """Counts calls by outcome. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._seconds: dict[str, float] = {}

    def add(self, call: str, outcome: str, seconds: float = 0.0) -> None:
        with self._lock:
            self._calls[call, outcome] += 1
            self._seconds[call] = self._seconds.get(call, 0.0) + seconds

    def calls(self) -> dict[tuple[str, str], int]:
        """Returns the number of calls by name and outcome: DONE or the name of the error. A lost race (VersionConflict,
        KeyExists) counts as an ordinary answer, not as a fault."""
        with self._lock:
            return dict(self._calls)

    def seconds(self) -> dict[str, float]:
        """Returns the total duration of calls in seconds, by the call's name. A watch is counted when it begins, with a
        duration of 0."""
        with self._lock:
            return dict(self._seconds)


def _name_of(error: MetadataError) -> str:
    """Returns the name of the error's class, or of its nearest base class that all stores share, because alerts look
    for that name."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == MetadataError.__module__)


class CountingStore:
    """Wraps a store and counts its calls. Must be used only in its own event loop."""

    def __init__(self, store: MetadataStore, counts: Counts | None = None) -> None:
        self._store = store
        self.counts = counts or Counts()
        self._outage = Outage()
        self.health_seen: StoreHealth | None = None
        """The last reported health; None if it is unknown, because the store was not asked or did not answer."""
        self._health_at = 0.0

    async def get(self, key: str) -> Versioned | None:
        return await self._counted("get", self._store.get(key))

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        return await self._counted("create", self._store.create(key, value, lease=lease, unless=unless))

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        return await self._counted("replace", self._store.replace(key, value, version, unless=unless))

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        await self._counted("delete", self._store.delete(key, version, unless=unless))

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        return await self._counted("list_page", self._store.list_page(prefix, after=after, limit=limit))

    def watch(self, prefix: str, *, after_revision: int | None = None) -> AsyncGenerator[WatchEvent, None]:
        self.counts.add("watch", DONE)
        return self._store.watch(prefix, after_revision=after_revision)

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        return await self._counted("grant_lease", self._store.grant_lease(ttl_seconds))

    async def keep_lease(self, lease: Lease) -> None:
        await self._counted("keep_lease", self._store.keep_lease(lease))

    async def lease_left(self, key: str) -> float | None:
        return await self._counted("lease_left", self._store.lease_left(key))

    async def revoke_lease(self, lease: Lease) -> None:
        await self._counted("revoke_lease", self._store.revoke_lease(lease))

    async def health(self) -> StoreHealth:
        """Checks the store's status. Neither begins nor ends an outage, because etcd's status is returned even if no
        member answers."""
        try:
            self.health_seen = await self._timed("health", self._store.health())
        except MetadataError:
            self.health_seen = None
            raise
        self._health_at = time.monotonic()
        return self.health_seen

    def finding(self) -> Finding:
        """Returns the finding about whether the store accepts changes, as of the last call to `health`."""
        return of_store(self.health_seen, age_seconds=time.monotonic() - self._health_at)

    async def close(self) -> None:
        await self._store.close()

    async def _counted(self, call: str, answer: Awaitable[T]) -> T:
        began = time.monotonic()
        try:
            found = await self._timed(call, answer)
        except MetadataError as error:
            self._outage.failed(error, began)
            raise
        self._outage.answered()
        return found

    async def _timed(self, call: str, answer: Awaitable[T]) -> T:
        began, ended = time.monotonic(), DONE
        try:
            return await answer
        except MetadataError as error:
            ended = _name_of(error)
            raise
        finally:
            self.counts.add(call, ended, time.monotonic() - began)
