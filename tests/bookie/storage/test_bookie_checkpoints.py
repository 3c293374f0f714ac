"""Checkpoints move the index forward beside the work, and never lose what they move."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import lmdb
import pytest

from bookie.disk.disk import OsDisk
from bookie.index.index import Index
from bookie.storage.bookie import Bookie
from bookie.wire.messages import LacReply, Status
from tests.bookie.bookies import (
    append,
    bookie_on,
    config_of,
    entries,
    lac_request,
    read,
)
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import INCARNATION, WAIT_SECONDS_MAX
from tests.support.aio import run, until_true

OK = Status.OK


class SlowIndex(Index):
    """An index whose commits wait, or fail, when a test says so."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.go_on = threading.Event()
        self.committing = threading.Event()
        self.error: Exception | None = None
        self.go_on.set()

    def commit_checkpoint(self, position: int, ledger_rows: object) -> None:
        self.committing.set()
        assert self.go_on.wait(WAIT_SECONDS_MAX)
        if self.error is not None:
            raise self.error
        super().commit_checkpoint(position, ledger_rows)  # type: ignore[arg-type]


async def open_on_slow_index(directory: Path) -> tuple[Bookie, SlowIndex]:
    for name in ("log", "index"):
        (directory / name).mkdir(exist_ok=True)
    index = SlowIndex(directory / "index")
    settings = config_of(directory, checkpoint_frames_max=1)
    return await Bookie.open(settings, OsDisk(directory / "log"), index, INCARNATION), index


def test_checkpoints_run_beside_the_work_and_a_restart_reads_only_what_came_after(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path, checkpoint_frames_max=10) as bookie:
            checkpoints = asyncio.create_task(bookie.run_checkpoints())
            for first in range(0, 100, 2):
                await append(bookie, frame_of(7, [first, first + 1], lac=first - 1))
                assert len(await read(bookie, 7)) == first + 2
            assert bookie.index.checkpoint_position > 0
            checkpoints.cancel()
            await asyncio.wait([checkpoints])
        async with bookie_on(tmp_path) as bookie:
            assert bookie.index.recent_frames == 0
            assert await read(bookie, 7) == entries(7, range(100))
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(97))

    run(test())


def test_quiet_times_checkpoint_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path, checkpoint_seconds_max=0.02) as bookie:
            checkpoints = asyncio.create_task(bookie.run_checkpoints())
            await append(bookie, frame_of(7, [0]))

            async def is_in_the_index() -> bool:
                return bookie.index.ledger(7) is not None

            await until_true(is_in_the_index)
            checkpoints.cancel()
            await asyncio.wait([checkpoints])

    run(test())


def test_stopping_during_a_checkpoint_loses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        bookie, index = await open_on_slow_index(tmp_path)
        checkpoints = asyncio.create_task(bookie.run_checkpoints())
        index.go_on.clear()
        await append(bookie, frame_of(7, [0], lac=-1))
        await asyncio.to_thread(index.committing.wait, WAIT_SECONDS_MAX)
        await append(bookie, frame_of(7, [1], lac=0))
        checkpoints.cancel()
        assert await read(bookie, 7) == entries(7, [0, 1])
        index.go_on.set()
        await asyncio.wait([checkpoints])
        assert index.recent_frames == 1
        await bookie.close()
        async with bookie_on(tmp_path) as bookie:
            assert await read(bookie, 7) == entries(7, [0, 1])
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(0))

    run(test())


def test_a_checkpoint_that_failed_is_told_and_the_next_one_moves_everything(tmp_path: Path) -> None:
    async def test() -> None:
        bookie, index = await open_on_slow_index(tmp_path)
        index.error = lmdb.DiskError("no space left")
        await append(bookie, frame_of(7, [0], lac=-1))
        with pytest.raises(lmdb.DiskError):
            await bookie.run_checkpoints()
        assert await append(bookie, frame_of(7, [1], lac=0)) == [OK]
        assert await read(bookie, 7) == entries(7, [0, 1])
        index.error = None
        await bookie.close()
        async with bookie_on(tmp_path) as bookie:
            assert bookie.index.recent_frames == 0
            assert await read(bookie, 7) == entries(7, [0, 1])

    run(test())
