"""Monitors the disk's free space, and makes the bookie read-only or writable accordingly (rule B4)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

from .reserve import FileReserve, reserve_size
from .space import SpaceLimit, SpaceWatch

log = logging.getLogger(__name__)

REPORTED_CHANGE_SHARE = 0.02
"""Minimum change in free space, as a share of the disk, that causes the registration to be updated."""

INDEX_STEP_BYTES = 64 * 1024 * 1024
"""Upper bound, in bytes, on the growth of the index in one checkpoint."""


class SpaceGuard:
    """Watches one data directory. Belongs to the event loop's thread; `reserve` belongs to the log thread."""

    def __init__(self, directory: Path, limit: SpaceLimit, reserve_bytes: int, check_seconds: float) -> None:
        self._directory = directory
        self._check_seconds = check_seconds
        self._watch = SpaceWatch(limit)
        self._look_now = asyncio.Event()
        self.reserve = FileReserve(directory, reserve_size(reserve_bytes, self._disk()[0]))
        self.why_read_only = ""
        self.on_change: Callable[[], None] = _nothing
        """Called when `why_read_only` has changed, or the free space by more than REPORTED_CHANGE_SHARE of the disk."""
        self.total_bytes, self.free_bytes = self._disk()
        self._ordered = ""
        self._why_full = ""

    async def run(self) -> None:
        """Measures periodically until cancelled."""
        while True:
            await self.look()
            self._look_now.clear()
            try:
                async with asyncio.timeout(self._check_seconds):
                    await self._look_now.wait()
            except TimeoutError:  # the usual case
                continue

    async def look(self) -> None:
        """Measures the disk, and decides whether the bookie is read-only."""
        total, free = self._disk()
        if abs(free - self.free_bytes) > REPORTED_CHANGE_SHARE * total:
            self.total_bytes, self.free_bytes = total, free
            self.on_change()
        if self._watch.observed(total, free) and self._watch.is_low:
            log.warning(
                "%s is nearly full: %d MiB are free, and below %d MiB the bookie becomes read-only (--free-space-min): "
                "free some space, or add bookies",
                self._directory,
                free >> 20,
                self._watch.limit_bytes(total) >> 20,
            )
        if not self._watch.is_read_only and self.reserve.is_touched:
            await asyncio.get_running_loop().run_in_executor(None, self.reserve.restore)
        self._decide(f"the bookie's disk is nearly full ({free >> 20} MiB are free)")

    def is_low(self) -> bool:
        """Returns whether there may be too little space for the next growth of the index."""
        return self._watch.is_low or self._disk()[1] < INDEX_STEP_BYTES

    def filled_up(self) -> None:
        """Makes the bookie read-only after a write failed because the disk was full."""
        self._watch.filled_up()
        self._decide("the bookie's disk is full")

    def ordered(self, why: str) -> None:
        """Makes the bookie read-only at an operator's request, with `why` as the reason; an empty reason withdraws the
        request."""
        self._ordered = why
        self._update_read_only()

    def _decide(self, why: str) -> None:
        is_full = self._watch.is_read_only or self.reserve.is_touched
        if is_full != bool(self._why_full):
            self._why_full = why if is_full else ""
            self._update_read_only()

    def _update_read_only(self) -> None:
        before, self.why_read_only = self.why_read_only, self._why_full or self._ordered
        if self.why_read_only == before:
            return
        if self._why_full:
            log.warning("read-only from now on: %s; free some space, or add a bookie", self._why_full)
        elif self._ordered:
            log.info("read-only from now on: %s", self._ordered)
        else:
            log.info("writable again")
        self.on_change()

    def _disk(self) -> tuple[int, int]:
        """Returns (total bytes, bytes available to the bookie)."""
        disk = os.statvfs(self._directory)
        return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


def _nothing() -> None:
    """Does nothing; the default of `on_change`."""
