"""Embedded metadata store on an SQLite file that several processes of one machine share.

All SQLite work is done on the store's own thread, so the event loop never waits for a disk or a lock. Watches see
changes made through this store object at once, and poll for changes made by others (`ChangePoll`).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from ..errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from ..fork_safety.fork_guard import ForkGuard
from ..store import PAGE_KEYS_MAX, Lease, Page, StoreHealth, Versioned, WatchEvent, check_value
from ..version import Version
from .clock import LeaseClock
from .sqlite_file import SqliteFile

# Detects changes that other processes make to a metadata file, and the expiry of leases, for all watches of a store.

FILE_LOOK_SECONDS = 0.01
"""Interval at which the file's modification time is checked; a check takes microseconds."""

READ_SECONDS = 0.05
"""Interval at which the revision is read even if the file looks unchanged: leases expire without a write, and file
times are coarse."""


class ChangePoll:
    """One task that serves all watches of a store. It wakes the waiting watches, and runs as long as any watch is
    waiting."""

    def __init__(self, path: str, revision: Callable[[], Awaitable[int]]) -> None:
        self._written_first = (path + "-wal", path)
        self._revision = revision
        self._revision_seen = -1
        self._waiting: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    def enter(self) -> asyncio.Event:
        """Starts watching; the returned event is set when there may be a change."""
        waker = asyncio.Event()
        self._waiting.add(waker)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        return waker

    def leave(self, waker: asyncio.Event) -> None:
        self._waiting.discard(waker)
        if not self._waiting and self._task is not None:
            self._task.cancel()
            self._task = None

    def wake(self) -> None:
        """Wakes all watches, because there may be a change or the store is closed."""
        for waker in self._waiting:
            waker.set()

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        written, read_at = self._written(), loop.time()
        while True:
            await asyncio.sleep(FILE_LOOK_SECONDS)
            now_written = self._written()
            if now_written != written or loop.time() - read_at >= READ_SECONDS:
                written, read_at = now_written, loop.time()
                await self._read()

    async def _read(self) -> None:
        try:
            revision = await self._revision()
        except StoreUnavailable:  # each watch gets the same error, and raises it
            self.wake()
            return
        if revision != self._revision_seen:
            self._revision_seen = revision
            self.wake()

    def _written(self) -> tuple[int, int]:
        """Returns the time of the last write and the file size; each write changes at least one of them."""
        for path in self._written_first:
            try:
                found = os.stat(path)
            except OSError:  # this file does not exist, at least not yet
                continue
            return found.st_mtime_ns, found.st_size
        return 0, 0


EVENTS_KEPT_MAX = 10_000
"""Maximum number of events kept in the file for watches; a watch that falls further behind gets WatchCompacted."""

CALL_SECONDS_MAX = 10.0
"""Time limit of a call. Only a stalled disk, or a process stopped while it holds the lock, makes a call take that long.
"""

CALLS_WAITING_MAX = 10_000
"""Maximum number of calls waiting for the store's thread; further calls are rejected."""

T = TypeVar("T")


class SqliteStore:
    """A metadata store in the file `path`. See `MetadataStore` for its guarantees.

    `open` or the first call opens the file, or creates it with mode 0600. If the path cannot be used, or if the file is
    missing and `create` is not set, BadMetadataUri is raised and states why.
    """

    def __init__(
        self,
        path: str,
        *,
        create: bool = True,
        events_kept_max: int = EVENTS_KEPT_MAX,
        clock: LeaseClock | None = None,
    ) -> None:
        self._path = path
        self._file = SqliteFile(path, create=create, events_kept_max=events_kept_max, clock=clock)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-sqlite")
        self._calls_waiting = 0
        self._changes = ChangePoll(path, lambda: self._read(self._file.revision))
        self._closed = False
        self._home = ForkGuard(
            lambda why: StoreRefused(f"the metadata store on {path} cannot be used here: {why}")
        )

    async def open(self) -> None:
        """Opens the file now, so that a file that cannot be used is detected at once."""
        await self._read(self._file.open)

    async def get(self, key: str) -> Versioned | None:
        return await self._read(partial(self._file.get, key))

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        return await self._write(
            partial(self._file.create, key, value, None if lease is None else lease.lease_id, unless)
        )

    async def replace(
        self, key: str, value: bytes, version: Version, *, unless: str | None = None
    ) -> Version:
        check_value(key, value)
        return await self._write(partial(self._file.replace, key, value, version, unless))

    async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
        await self._write(partial(self._file.delete, key, version, unless))

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        assert 1 <= limit <= PAGE_KEYS_MAX
        return await self._read(partial(self._file.list_page, prefix, after, limit))

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """See `MetadataStore.watch`. Cancelling a waiting `__anext__` ends the watch."""
        waker = self._changes.enter()
        try:
            after = await self._read(self._file.revision) if after_revision is None else after_revision
            while True:
                waker.clear()
                events, after = await self._read(partial(self._file.events_after, prefix, after))
                for event in events:
                    yield event
                if not events:
                    await waker.wait()
        finally:
            self._changes.leave(waker)

    async def grant_lease(self, ttl_seconds: float) -> Lease:
        assert ttl_seconds > 0
        return await self._write(partial(self._file.grant, ttl_seconds))

    async def keep_lease(self, lease: Lease) -> None:
        await self._write(partial(self._file.keep, lease.lease_id))

    async def lease_left(self, key: str) -> float | None:
        return await self._read(partial(self._file.lease_left, key))

    async def revoke_lease(self, lease: Lease) -> None:
        await self._write(partial(self._file.revoke, lease.lease_id))

    async def health(self) -> StoreHealth:
        await self._read(self._file.revision)  # creates the file, if this is its first use
        return StoreHealth("sqlite", sqlite3.sqlite_version, await self._read(self._file.size_bytes))

    async def close(self) -> None:
        """Waits for the calls in progress, then closes the file and ends the watches."""
        if self._closed or not self._home.is_here:
            return
        self._closed = True
        self._changes.wake()
        try:
            await self._on_thread(self._file.close, changes=False)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(self, work: Callable[[], T]) -> T:
        return await self._submit(work, changes=False)

    async def _write(self, work: Callable[[], T]) -> T:
        result = await self._submit(work, changes=True)
        self._changes.wake()
        return result

    async def _submit(self, work: Callable[[], T], *, changes: bool) -> T:
        self._home.check()
        if self._closed:
            raise StoreRefused(f"the metadata store on {self._path} is closed")
        if self._calls_waiting >= CALLS_WAITING_MAX:
            raise StoreUnavailable(
                f"{CALLS_WAITING_MAX} calls are already waiting for the metadata file {self._path}"
            )
        self._calls_waiting += 1
        try:
            return await self._on_thread(work, changes=changes)
        finally:
            self._calls_waiting -= 1

    async def _on_thread(self, work: Callable[[], T], *, changes: bool) -> T:
        try:
            job = self._thread.submit(work)
        except (
            RuntimeError
        ):  # the interpreter is exiting and has ended the thread, but an exit hook may still close the store
            return work()
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await asyncio.wrap_future(job)
        except TimeoutError:
            why = f"no answer from the metadata file {self._path} within {CALL_SECONDS_MAX:g} s"
            # A job that was still queued is cancelled; one that is running may still succeed.
            never_started = job.cancel()
            raise (StoreUnavailable if never_started or not changes else OutcomeUnknown)(why) from None
