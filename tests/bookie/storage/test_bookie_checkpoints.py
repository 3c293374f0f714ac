"""Checkpoints move the index forward beside the work, and never lose what they move."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from bookie.disk.disk import OsDisk
from bookie.errors import IndexUnusable
from bookie.index.index import Index
from bookie.index.local_ledger_state import LocalLedgerState
from bookie.storage.bookie import Bookie
from bookie.storage.checkpointing import CHANGE_BYTES, Checkpointer
from bookie.wire.messages import LacReply, Status
from tests.bookie.bookies import append, bookie_on, config_of, entries, lac_request, read
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import INCARNATION, WAIT_SECONDS_MAX
from tests.support.aio import until_true

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


async def test_checkpoints_run_beside_the_work_and_a_restart_reads_only_what_came_after(
    tmp_path: Path,
) -> None:
    async with bookie_on(tmp_path, checkpoint_frames_max=10) as bookie:
        checkpoints = asyncio.create_task(bookie.run_checkpoints())
        for first in range(0, 100, 2):
            await append(bookie, frame_of(7, [first, first + 1], lac=first - 1))
            assert len(await read(bookie, 7)) == first + 2

        async def has_checkpointed() -> bool:
            return bookie.index.checkpoint_position > 0

        await until_true(has_checkpointed)  # a slow disk takes longer than fifty appends
        checkpoints.cancel()
        await asyncio.wait([checkpoints])
    async with bookie_on(tmp_path) as bookie:
        assert bookie.index.recent_frames == 0
        assert await read(bookie, 7) == entries(7, range(100))
        assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(97))


async def test_quiet_times_checkpoint_too(tmp_path: Path) -> None:
    async with bookie_on(tmp_path, checkpoint_seconds_max=0.02) as bookie:
        checkpoints = asyncio.create_task(bookie.run_checkpoints())
        await append(bookie, frame_of(7, [0]))

        async def is_in_the_index() -> bool:
            return bookie.index.ledger(7) is not None

        await until_true(is_in_the_index)
        checkpoints.cancel()
        await asyncio.wait([checkpoints])


async def test_stopping_during_a_checkpoint_loses_nothing(tmp_path: Path) -> None:
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


async def test_a_checkpoint_that_failed_is_told_and_the_next_one_moves_everything(tmp_path: Path) -> None:
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


async def test_a_checkpoint_that_failed_leaves_no_ledger_out_of_the_next_one(tmp_path: Path) -> None:
    """R1: a restart reads only what came after the checkpoint, and would know nothing of the fence."""
    bookie, index = await open_on_slow_index(tmp_path)
    assert await bookie.fence(8) == (OK, "")
    index.error = lmdb.DiskError("no space left")
    with pytest.raises(lmdb.DiskError):
        await bookie.checkpoint()
    index.error = None
    await bookie.close()
    async with bookie_on(tmp_path) as bookie:
        assert await append(bookie, frame_of(8, [0])) == [Status.FENCED]


async def test_an_index_that_could_not_be_written_is_left_alone_when_the_bookie_stops(tmp_path: Path) -> None:
    """The log has everything."""
    bookie, index = await open_on_slow_index(tmp_path)
    assert await append(bookie, frame_of(7, [0])) == [OK]
    index.error = IndexUnusable("it is broken")
    with pytest.raises(IndexUnusable):
        await bookie.run_checkpoints()
    index.committing.clear()
    await bookie.close()
    assert not index.committing.is_set()
    async with bookie_on(tmp_path) as bookie:
        assert await read(bookie, 7) == entries(7, [0])


# --- on a disk that is nearly full


class FullIndex(Index):
    """An index that finds no room for so many changes."""

    refusals = 0

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        if self.refusals:
            self.refusals -= 1
            raise IndexUnusable("the index cannot be written: No space left on device")
        with super()._writing() as txn:
            yield txn


def checkpointer_on(
    directory: Path, *, is_low: bool, release: Callable[[int], bool] = lambda _: False
) -> tuple[Checkpointer, FullIndex]:
    """With one ledger that is not in the index yet."""
    index = FullIndex(directory)
    checkpointer = Checkpointer(
        config_of(directory),
        index,
        lambda ledger_id: LocalLedgerState(ledger_id).encode(),
        lambda: is_low,
        release=release,
    )
    checkpointer.changed(7, 0)
    return checkpointer, index


async def test_a_checkpoint_the_disk_has_no_room_for_is_left_for_later_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer, index = checkpointer_on(tmp_path, is_low=True)
    index.refusals = 1
    with caplog.at_level(logging.WARNING):
        await checkpointer.run_if_there_is_room()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("no disk space to update the index, trying again later: the index cannot")
    assert (index.ledger(7), checkpointer.has_failed) == (None, False)
    await checkpointer.run_if_there_is_room()
    assert index.ledger(7) == LocalLedgerState(7)
    await checkpointer.close()
    index.close()


@pytest.mark.parametrize("what", ["checkpoint", "forget"])
@pytest.mark.parametrize("is_low", [True, False])
@pytest.mark.parametrize("is_left", [True, False])
async def test_what_frees_space_takes_some_of_the_reserve_on_a_full_disk_and_only_there(
    tmp_path: Path, what: str, is_low: bool, is_left: bool
) -> None:
    released: list[int] = []

    def release(size: int) -> bool:
        released.append(size)
        return is_left

    checkpointer, index = checkpointer_on(tmp_path, is_low=is_low, release=release)
    index.refusals = 1

    async def free() -> None:
        if what == "checkpoint":
            await checkpointer.run_for_space()
        else:
            await checkpointer.apart(index.forget, [7])

    if is_low and is_left:
        await free()
    else:
        with pytest.raises(IndexUnusable, match="No space left"):
            await free()
    assert released == ([CHANGE_BYTES] if is_low else [])
    await checkpointer.close()
    index.close()
