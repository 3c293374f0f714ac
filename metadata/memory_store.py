"""In-memory metadata store: the reference model for the other stores.

`MemoryData` is the model, a pure state machine: the time is an argument and nothing is awaited. `MemoryStore` is a
handle on it that takes the time from the running event loop and waits for changes, so leases follow virtual time in a
simulation. Several handles may share one `MemoryData`, even from event loops in different threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from .errors import KeyExists, LeaseLost, NoSuchKey, StoreRefused, VersionConflict, WatchCompacted
from .store import (
    PAGE_KEYS_MAX,
    EventKind,
    Lease,
    Page,
    StoreHealth,
    Versioned,
    WatchEvent,
    check_value,
)
from .version import Version

EVENTS_KEPT_MAX = 10_000
"""Number of events kept for watches; a watch that falls further behind gets WatchCompacted."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: bytes
    version: int
    lease_id: int | None


@dataclass(frozen=True, slots=True)
class _LeaseState:
    ttl_seconds: float
    expires_at: float


class MemoryData:
    """Keys, leases and recent history. Every method is one atomic step at the time `now`."""

    def __init__(self, *, events_kept_max: int = EVENTS_KEPT_MAX) -> None:
        assert events_kept_max >= 1
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._leases: dict[int, _LeaseState] = {}
        self._lease_id_last = 0
        self._revision = 0
        # Each event has its own revision and no revision is skipped: the last event's revision is
        # `_revision`, and an event's position is computed from its revision without a search.
        self._events: deque[WatchEvent] = deque(maxlen=events_kept_max)
        self._wakers: set[Waker] = set()

    def revision(self, now: float) -> int:
        """Returns the revision of the latest change."""
        with self._lock:
            self._expire(now)
            return self._revision

    def get(self, key: str, now: float) -> Versioned | None:
        with self._lock:
            self._expire(now)
            entry = self._entries.get(key)
            return None if entry is None else Versioned(key, entry.value, entry.version)

    def create(
        self, key: str, value: bytes, lease_id: int | None, now: float, unless: str | None = None
    ) -> Version:
        with self._lock:
            self._expire(now)
            if unless in self._entries:
                raise KeyExists(unless)
            if key in self._entries:
                raise KeyExists(key)
            if lease_id is not None and lease_id not in self._leases:
                raise LeaseLost(lease_id)
            return self._put(key, value, lease_id)

    def replace(
        self,
        key: str,
        value: bytes,
        version: Version,
        now: float,
        unless: str | None = None,
    ) -> Version:
        with self._lock:
            self._expire(now)
            if unless in self._entries:
                raise KeyExists(unless)
            return self._put(key, value, self._at_version(key, version).lease_id)

    def delete(self, key: str, version: Version, now: float, unless: str | None = None) -> None:
        with self._lock:
            self._expire(now)
            if unless in self._entries:
                raise KeyExists(unless)
            self._at_version(key, version)
            self._drop(key)

    def list_page(self, prefix: str, after: str | None, limit: int, now: float) -> Page:
        with self._lock:
            self._expire(now)
            keys = sorted(k for k in self._entries if k.startswith(prefix) and (after is None or k > after))
            items = tuple(
                Versioned(k, self._entries[k].value, self._entries[k].version) for k in keys[:limit]
            )
            return Page(items, items[-1].key if len(keys) > limit else None, self._revision)

    def events_after(self, prefix: str, after: int, now: float) -> tuple[list[WatchEvent], int]:
        """Returns the kept events under `prefix` with a revision > `after`, and the last revision that they cover."""
        with self._lock:
            self._expire(now)
            oldest = self._revision - len(self._events) + 1
            if after + 1 < oldest or after > self._revision:
                raise WatchCompacted(after)
            fresh = (self._events[i] for i in range(after + 1 - oldest, len(self._events)))
            return [event for event in fresh if event.key.startswith(prefix)], max(after, self._revision)

    def grant(self, ttl_seconds: float, now: float) -> Lease:
        with self._lock:
            self._lease_id_last += 1
            self._leases[self._lease_id_last] = _LeaseState(ttl_seconds, now + ttl_seconds)
            self._wake()  # a waiting watch must learn of the new deadline
            return Lease(self._lease_id_last, ttl_seconds)

    def keep(self, lease_id: int, now: float) -> None:
        with self._lock:
            self._expire(now)
            state = self._leases.get(lease_id)
            if state is None:
                raise LeaseLost(lease_id)
            self._leases[lease_id] = _LeaseState(state.ttl_seconds, now + state.ttl_seconds)

    def lease_left(self, key: str, now: float) -> float | None:
        with self._lock:
            self._expire(now)
            entry = self._entries.get(key)
            state = self._leases.get(entry.lease_id) if entry is not None and entry.lease_id else None
            return None if state is None else state.expires_at - now

    def revoke(self, lease_id: int, now: float) -> None:
        with self._lock:
            self._expire(now)
            self._end_lease(lease_id)

    def next_expiry(self) -> float | None:
        """Returns the time at which the next lease expires unless it is renewed; None if there is no lease."""
        with self._lock:
            return min((state.expires_at for state in self._leases.values()), default=None)

    def add_waker(self, waker: Waker) -> None:
        with self._lock:
            self._wakers.add(waker)

    def remove_waker(self, waker: Waker) -> None:
        with self._lock:
            self._wakers.discard(waker)

    def _at_version(self, key: str, version: Version) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            raise NoSuchKey(key)
        if entry.version != version or not version.matches(entry.value):
            raise VersionConflict(key, version)
        return entry

    def _put(self, key: str, value: bytes, lease_id: int | None) -> Version:
        self._record(EventKind.PUT, key, value)
        self._entries[key] = _Entry(value, self._revision, lease_id)
        return Version(self._revision, value)

    def _drop(self, key: str) -> None:
        del self._entries[key]
        self._record(EventKind.DELETE, key, b"")

    def _record(self, kind: EventKind, key: str, value: bytes) -> None:
        self._revision += 1
        self._events.append(WatchEvent(kind, key, value, self._revision))
        self._wake()

    def _expire(self, now: float) -> None:
        for lease_id in [i for i, state in self._leases.items() if state.expires_at <= now]:
            self._end_lease(lease_id)

    def _end_lease(self, lease_id: int) -> None:
        if self._leases.pop(lease_id, None) is not None:
            for key in sorted(k for k, entry in self._entries.items() if entry.lease_id == lease_id):
                self._drop(key)

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.wake()


class Waker:
    """Wakes one waiting watch, even from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Ends the current `wait`, or the next one if none is in progress."""
        if self._thread_id == threading.get_ident():
            self._event.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, until: float | None) -> None:
        """Waits until woken, or until `until` on the loop's clock. Returns at once if woken since the last `wait`."""
        try:
            async with asyncio.timeout_at(until):
                await self._event.wait()
        except TimeoutError:  # `until` was reached
            return
        self._event.clear()


class MemoryStore:
    """A handle on a `MemoryData`, by default on a new one. Implements `MetadataStore`."""

    def __init__(self, data: MemoryData | None = None) -> None:
        self._data = MemoryData() if data is None else data
        self._watching: set[Waker] = set()
        self._closed = False

    async def get(self, key: str) -> Versioned | None:
        return self._data.get(key, self._now())

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        lease_id = None if lease is None else lease.lease_id
        return self._data.create(key, value, lease_id, self._now(), unless)

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        return self._data.replace(key, value, version, self._now(), unless)

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        self._data.delete(key, version, self._now(), unless)

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        assert 1 <= limit <= PAGE_KEYS_MAX
        return self._data.list_page(prefix, after, limit, self._now())

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """See `MetadataStore.watch`. Cancelling a waiting `__anext__` ends the watch."""
        waker = Waker()
        after = self._data.revision(self._now()) if after_revision is None else after_revision
        self._data.add_waker(waker)
        self._watching.add(waker)
        try:
            while True:
                events, after = self._data.events_after(prefix, after, self._now())
                for event in events:
                    yield event
                if not events:
                    await waker.wait(self._data.next_expiry())
        finally:
            self._watching.discard(waker)
            self._data.remove_waker(waker)

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        assert ttl_seconds > 0
        return self._data.grant(ttl_seconds, self._now())

    async def keep_lease(self, lease: Lease) -> None:
        self._data.keep(lease.lease_id, self._now())

    async def lease_left(self, key: str) -> float | None:
        return self._data.lease_left(key, self._now())

    async def revoke_lease(self, lease: Lease) -> None:
        self._data.revoke(lease.lease_id, self._now())

    async def health(self) -> StoreHealth:
        self._now()  # raises if the store is closed
        return StoreHealth("memory", "", 0)

    async def close(self) -> None:
        """Ends this handle's watches; the data remains available to other handles."""
        self._closed = True
        for waker in self._watching:
            waker.wake()

    def _now(self) -> float:
        if self._closed:
            raise StoreRefused("this memory store is closed")
        return asyncio.get_running_loop().time()
