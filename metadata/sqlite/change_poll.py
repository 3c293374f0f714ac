"""Notices changes that other processes make to a metadata file, and leases that expire, for all watches of a store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from ..errors import StoreUnavailable

FILE_LOOK_SECONDS = 0.01
"""Interval at which the file's modification time is checked, which costs microseconds."""

READ_SECONDS = 0.05
"""Interval at which the revision is read even if the file looks unchanged: leases expire without a write, and file
times are coarse."""


class ChangePoll:
    """One task for all watches of a store. It wakes waiting watches, and runs while there are any."""

    def __init__(self, path: str, revision: Callable[[], Awaitable[int]]) -> None:
        self._written_first = (path + "-wal", path)
        self._revision = revision
        self._revision_seen = -1
        self._waiting: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    def enter(self) -> asyncio.Event:
        """Begins to watch: the event is set when there may be a change."""
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
        """Wakes all watches: there may be a change, or the store is closed."""
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
        """Time of the last write and size of the file, which change with each write."""
        for path in self._written_first:
            try:
                found = os.stat(path)
            except OSError:  # no WAL, or none yet
                continue
            return found.st_mtime_ns, found.st_size
        return 0, 0
