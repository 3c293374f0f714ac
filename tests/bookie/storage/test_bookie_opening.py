"""Opening a bookie leaves the event loop free while the log is read, and cannot be left half-way."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from bookie.disk.disk import OsDisk, OsFile
from bookie.storage.bookie import Bookie
from tests.bookie.bookies import append, bookie_on, entries, open_bookie, read
from tests.bookie.entries import frame_of
from tests.bookie.logs import WAIT_SECONDS_MAX
from tests.support.aio import cancel


class SlowOpenDisk(OsDisk):
    """The real disk, whose files open when a test says so."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def open(self, name: str) -> OsFile:
        self.asked.set()
        assert self.go_on.wait(WAIT_SECONDS_MAX)
        return super().open(name)


async def opening(directory: Path) -> tuple[SlowOpenDisk, asyncio.Task[Bookie]]:
    """A bookie that has begun to read its log, with one entry in it."""
    async with bookie_on(directory) as bookie:
        await append(bookie, frame_of(7, [0]))
    disk = SlowOpenDisk(directory / "log")
    task = asyncio.create_task(open_bookie(directory, disk))
    await asyncio.to_thread(disk.asked.wait, WAIT_SECONDS_MAX)
    return disk, task


async def test_the_loop_runs_on_while_the_log_is_read(tmp_path: Path) -> None:
    """M2: the lease is kept there, and callers are told that the bookie is starting."""
    disk, task = await opening(tmp_path)
    assert not task.done()
    disk.go_on.set()
    bookie = await task
    assert await read(bookie, 7) == entries(7, [0])
    await bookie.close()


async def test_opening_is_cancelled_only_when_nobody_reads_the_log_any_more(tmp_path: Path) -> None:
    """The directory's lock is given up afterwards."""
    disk, task = await opening(tmp_path)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    disk.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cancel(task)
