"""What bounds a bookie, and what it does when its disk is full or broken."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random

from bookie.errors import LogFailed
from bookie.wire.messages import Status
from tests.bookie.bookies import (
    append,
    bookie_on,
    entries,
    open_bookie,
    read,
    submit,
)
from tests.bookie.entries import frame_of
from tests.bookie.simulated_disk import SimulatedDisk
from tests.bookie.slow_disk import SlowSyncDisk

OK = Status.OK


async def test_a_full_log_queue_pushes_back_until_the_disk_has_caught_up(tmp_path: Path) -> None:
    disk = SlowSyncDisk(tmp_path / "log")
    async with bookie_on(tmp_path, disk, log_queue_bytes_max=1000) as bookie:
        disk.go_on.clear()
        await bookie.intake.room()
        answers = [submit(bookie, frame_of(7, [0]))]
        await bookie.intake.room()
        answers.append(submit(bookie, frame_of(7, [1], payload_bytes=1000)))
        waiting = [asyncio.create_task(bookie.intake.room()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0.01)
        assert not any(one.done() for one in waiting)
        disk.go_on.set()
        await asyncio.gather(*waiting)
        assert [status for status, _ in await asyncio.gather(*answers)] == [OK, OK]


async def test_a_refused_frame_gives_its_room_back(tmp_path: Path) -> None:
    disk = SimulatedDisk(Random(0), capacity_bytes=64)
    async with bookie_on(tmp_path, disk, log_queue_bytes_max=100) as bookie:
        for entry_id in range(3):
            assert await append(bookie, frame_of(7, [entry_id])) == [Status.READ_ONLY]
            await bookie.intake.room()


async def test_B1_after_a_failed_sync_nothing_is_acknowledged_and_the_bookie_says_why(tmp_path: Path) -> None:
    disk = SimulatedDisk(Random(0))
    bookie = await open_bookie(tmp_path, disk)
    assert await append(bookie, frame_of(7, [0])) == [OK]
    disk.fail_sync_after(0, OSError(errno.EIO, "the disk is broken"))
    waiting = [submit(bookie, frame_of(7, [1])), asyncio.ensure_future(bookie.fence(7))]
    failed = await bookie.failed
    why = "the log could not be written or synced: [Errno 5] the disk is broken"
    assert (type(failed), str(failed)) == (LogFailed, why)
    assert await submit(bookie, frame_of(7, [2], recovery=True)) == (Status.IO_ERROR, why)
    assert await bookie.fence(8) == (Status.IO_ERROR, why)
    assert await read(bookie, 7) == entries(7, [0])
    await bookie.close()
    assert not any(answer.done() for answer in waiting)
    waiting[1].cancel()
