"""A bookie keeps what it has acknowledged, through restarts and crashes, and refuses a fenced writer."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import lmdb
import pytest

from bookie.bookie import Bookie
from bookie.disk import OsDisk, OsFile
from bookie.errors import DamagedLog, LogFailed
from bookie.index import Index
from bookie.wire.columns import NO_ENTRIES
from bookie.wire.messages import EntryRange, Frame, LacReply, ReadReply, Status
from tests.bookie.bookies import (
    ALL_ENTRIES,
    append,
    bookie_on,
    config_of,
    entries,
    fenced_read,
    lac_request,
    open_bookie,
    read,
    read_request,
    submit,
)
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import INCARNATION, WAIT_SECONDS_MAX, use_small_sizes
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import run, until_true

OK = Status.OK


class SlowSyncFile(OsFile):
    """A file whose syncs wait for `go_on`."""

    go_on: threading.Event

    def datasync(self) -> None:
        assert self.go_on.wait(WAIT_SECONDS_MAX)
        super().datasync()


class SlowSyncDisk(OsDisk):
    """The real disk, with syncs that wait while a test says so."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory)
        self.go_on = threading.Event()
        self.go_on.set()

    def create(self, name: str) -> OsFile:
        super().create(name).close()
        return self.open(name)

    def open(self, name: str) -> OsFile:
        file = SlowSyncFile(self._directory / name, 2)
        file.go_on = self.go_on
        return file


# --- appending and reading


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            assert await append(bookie, frame_of(7, range(3)), frame_of(7, [3], lac=2)) == [OK, OK]
            assert await read(bookie, 7) == entries(7, range(4))
            assert await read(bookie, 7, 1, 2) == entries(7, [1, 2])
            reply = await bookie.read(read_request(7, 3, 3))
            assert reply.last_add_confirmed == lac_of(2)

    run(test())


def test_ledgers_do_not_see_each_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0, 1]), frame_of(8, [1, 2]))
            assert (await read(bookie, 7), await read(bookie, 8)) == (entries(7, [0, 1]), entries(8, [1, 2]))

    run(test())


def test_a_ledger_nobody_wrote_to_is_no_such_ledger(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            assert await bookie.read(read_request(7)) == ReadReply(
                Status.NO_SUCH_LEDGER, NO_ENTRIES, ALL_ENTRIES
            )
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(Status.NO_SUCH_LEDGER)

    run(test())


def test_a_range_that_is_none_is_a_bad_request(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            for ledger_id, first, last in ((7, 3, 2), (7, -1, 2), (-1, 0, 0)):
                reply = await bookie.read(read_request(ledger_id, first, last))
                assert reply.status is Status.BAD_REQUEST

    run(test())


def test_a_damaged_record_is_an_io_error_for_its_entries_and_no_others(tmp_path: Path) -> None:
    """R6"""

    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0, 1]))
            await append(bookie, frame_of(7, [2]))
            path = tmp_path / "log" / "00000000.log"
            data = bytearray(path.read_bytes())
            data[64 + 90] ^= 1
            path.write_bytes(data)
            reply = await bookie.read(read_request(7, 0, 9))
            assert (reply.status, reply.columns.ids.tolist()) == (OK, [2])  # type: ignore[attr-defined]
            assert (reply.covered_through, reply.damaged) == (9, (EntryRange(0, 1),))

    run(test())


# --- fencing


def test_a_fenced_ledger_refuses_its_writer_and_takes_recovery_adds(tmp_path: Path) -> None:
    """R1"""

    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0]))
            assert await bookie.fence(7) == (OK, "")
            assert await append(
                bookie, frame_of(7, [1]), frame_of(7, [], lac=0), frame_of(7, [1], recovery=True)
            ) == [Status.FENCED, Status.FENCED, OK]
            assert await read(bookie, 7) == entries(7, [0, 1])

    run(test())


@pytest.mark.parametrize("how", ["fence", "read", "last add confirmed"])
def test_no_fencing_request_is_answered_before_the_fence_is_on_disk(tmp_path: Path, how: str) -> None:
    """R1: and the writer is refused from the moment the fence is submitted."""

    async def ask(bookie: Bookie) -> object:
        match how:
            case "fence":
                return (await bookie.fence(7))[0]
            case "read":
                return (await fenced_read(bookie, 7)).status
            case _:
                return (await bookie.last_add_confirmed(lac_request(7, fence=True))).status

    async def test() -> None:
        disk = SlowSyncDisk(tmp_path / "log")
        async with bookie_on(tmp_path, disk) as bookie:
            disk.go_on.clear()
            asked = [asyncio.create_task(ask(bookie)) for _ in range(2)]
            before = submit(bookie, frame_of(8, [0]))
            await asyncio.sleep(0)
            assert await append(bookie, frame_of(7, [0])) == [Status.FENCED]
            assert not before.done() and not any(one.done() for one in asked)
            disk.go_on.set()
            expected = OK if how == "fence" else Status.NO_SUCH_LEDGER
            assert [await one for one in asked] == [expected, expected]
            assert await before == (OK, "")

    run(test())


def test_a_fencing_read_sees_all_that_was_accepted_before_the_fence(tmp_path: Path) -> None:
    """R3: what it does not see, the writer will never have confirmed here."""

    async def test() -> None:
        disk = SlowSyncDisk(tmp_path / "log")
        async with bookie_on(tmp_path, disk) as bookie:
            disk.go_on.clear()
            accepted = submit(bookie, frame_of(7, [0, 1]))
            asked = asyncio.create_task(fenced_read(bookie, 7))
            await asyncio.sleep(0)
            disk.go_on.set()
            assert list((await asked).columns.ids) == [0, 1]
            assert accepted.result() == (OK, "")

    run(test())


def test_a_fence_on_a_full_disk_is_refused_and_is_no_fence(tmp_path: Path) -> None:
    """R1"""

    async def test() -> None:
        disk = SimulatedDisk(Random(0), capacity_bytes=64)
        async with bookie_on(tmp_path, disk) as bookie:
            status, detail = await bookie.fence(7)
            assert (status, detail) == (
                Status.READ_ONLY,
                "the bookie's disk takes no more: No space left on device",
            )
            assert (await fenced_read(bookie, 7)).status is Status.READ_ONLY
            assert (await bookie.last_add_confirmed(lac_request(7, fence=True))).status is Status.READ_ONLY
            assert await append(bookie, frame_of(7, [0])) == [Status.READ_ONLY]
            disk.capacity_bytes = None
            assert await append(bookie, frame_of(7, [0])) == [OK]
            assert await read(bookie, 7) == entries(7, [0])

    run(test())


# --- last-add-confirmed


def test_the_last_add_confirmed_is_the_highest_one_on_disk(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(
                bookie,
                frame_of(7, [0]),
                frame_of(7, [1, 2], lac=0),
                frame_of(7, [], lac=2),
                frame_of(7, [], lac=1),
            )
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(2))

    run(test())


def test_a_long_poll_is_answered_when_a_later_last_add_confirmed_is_on_disk_and_not_before(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0, 1], lac=0))
            at_once = await bookie.last_add_confirmed(lac_request(7, beyond=-1, wait_ms=60_000))
            assert at_once == LacReply(OK, lac_of(0))
            waiting = asyncio.create_task(bookie.last_add_confirmed(lac_request(7, beyond=0, wait_ms=60_000)))
            await asyncio.sleep(0)
            await append(bookie, frame_of(7, [2], lac=0), frame_of(8, [0, 1], lac=1), frame_of(7, [3]))
            assert not waiting.done()
            await append(bookie, frame_of(7, [4], lac=1))
            assert await waiting == LacReply(OK, lac_of(1))

    run(test())


def test_a_long_poll_ends_when_its_time_is_up(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0], lac=-1))
            reply = await bookie.last_add_confirmed(lac_request(7, beyond=5, wait_ms=20))
            assert reply == LacReply(OK, lac_of(-1))
            assert bookie._lac_waiters == {}

    run(test())


def test_nobody_waits_for_news_from_a_bookie_that_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            asked = lac_request(7, wait_ms=60_000)
            waiting = [asyncio.create_task(bookie.last_add_confirmed(asked)) for _ in range(3)]
            await asyncio.sleep(0)
            bookie.end_waits()
            expected = LacReply(Status.NO_SUCH_LEDGER)
            assert [await one for one in waiting] == [expected] * 3
            assert await bookie.last_add_confirmed(asked) == expected

    run(test())


# --- restarts


def test_a_restart_keeps_entries_fences_and_last_add_confirmed(tmp_path: Path) -> None:
    """B2, R1: also a fence of a ledger this bookie knows nothing else of."""

    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, range(5), lac=3), frame_of(8, [0, 3]))
            await bookie.fence(8)
            await bookie.fence(404)
        for _ in range(2):
            async with bookie_on(tmp_path) as bookie:
                assert await read(bookie, 7) == entries(7, range(5))
                assert await read(bookie, 8) == entries(8, [0, 3])
                assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(3))
                assert await append(bookie, frame_of(8, [4]), frame_of(404, [0])) == [Status.FENCED] * 2
                assert (await bookie.read(read_request(404))).status is Status.NO_SUCH_LEDGER

    run(test())


async def _without_close(directory: Path, disk: SimulatedDisk, *frames: Frame) -> None:
    """A life that ends in a crash: nothing was checkpointed after the start."""
    bookie = await open_bookie(directory, disk)
    assert set(await append(bookie, *frames)) == {OK}
    assert await bookie.fence(404) == (OK, "")
    disk.power_off_before(0)
    await bookie.close()


def test_a_crash_loses_nothing_acknowledged_whatever_the_checkpoint(tmp_path: Path) -> None:
    """B2"""

    async def test() -> None:
        disk = SimulatedDisk(Random(1))
        for life in range(3):
            await _without_close(tmp_path, disk, frame_of(7, [life], lac=life - 1), frame_of(9 + life, [0]))
            disk.crash()
        async with bookie_on(tmp_path, disk) as bookie:
            assert await read(bookie, 7) == entries(7, range(3))
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(1))
            assert await append(bookie, frame_of(404, [0])) == [Status.FENCED]

    run(test())


def test_checkpoints_run_beside_the_work_and_a_restart_reads_only_what_came_after(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path, checkpoint_frames_max=10) as bookie:
            checkpoints = asyncio.create_task(bookie.run_checkpoints())
            for first in range(0, 100, 2):
                await append(bookie, frame_of(7, [first, first + 1], lac=first - 1))
                assert len(await read(bookie, 7)) == first + 2
            assert bookie._index.checkpoint_position > 0
            checkpoints.cancel()
            await asyncio.wait([checkpoints])
        async with bookie_on(tmp_path) as bookie:
            assert bookie._index.recent_frames == 0
            assert await read(bookie, 7) == entries(7, range(100))
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(97))

    run(test())


def test_quiet_times_checkpoint_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path, checkpoint_seconds_max=0.02) as bookie:
            checkpoints = asyncio.create_task(bookie.run_checkpoints())
            await append(bookie, frame_of(7, [0]))

            async def is_in_the_index() -> bool:
                return bookie._index.ledger(7) is not None

            await until_true(is_in_the_index)
            checkpoints.cancel()
            await asyncio.wait([checkpoints])

    run(test())


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
            assert bookie._index.recent_frames == 0
            assert await read(bookie, 7) == entries(7, [0, 1])

    run(test())


def test_an_index_that_was_lost_is_made_again_from_the_log(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, range(3), lac=1))
            await bookie.fence(404)
        for file in (tmp_path / "index").iterdir():
            file.unlink()
        async with bookie_on(tmp_path) as bookie:
            assert await read(bookie, 7) == entries(7, range(3))
            assert await append(bookie, frame_of(404, [0])) == [Status.FENCED]

    run(test())


def test_a_log_that_lost_a_segment_refuses_to_start(tmp_path: Path) -> None:
    """R6"""

    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, [0]))
        for file in (tmp_path / "log").iterdir():
            file.unlink()
        with pytest.raises(DamagedLog, match=r"00000000\.log"):
            await open_bookie(tmp_path)

    run(test())


# --- limits and failures


def test_a_full_log_queue_pushes_back_until_the_disk_has_caught_up(tmp_path: Path) -> None:
    async def test() -> None:
        disk = SlowSyncDisk(tmp_path / "log")
        async with bookie_on(tmp_path, disk, log_queue_bytes_max=1000) as bookie:
            disk.go_on.clear()
            await bookie.room()
            answers = [submit(bookie, frame_of(7, [0]))]
            await bookie.room()
            answers.append(submit(bookie, frame_of(7, [1], payload_bytes=1000)))
            waiting = [asyncio.create_task(bookie.room()) for _ in range(2)]
            await asyncio.wait(waiting, timeout=0.01)
            assert not any(one.done() for one in waiting)
            disk.go_on.set()
            await asyncio.gather(*waiting)
            assert [status for status, _ in await asyncio.gather(*answers)] == [OK, OK]

    run(test())


def test_a_refused_frame_gives_its_room_back(tmp_path: Path) -> None:
    async def test() -> None:
        disk = SimulatedDisk(Random(0), capacity_bytes=64)
        async with bookie_on(tmp_path, disk, log_queue_bytes_max=100) as bookie:
            for entry_id in range(3):
                assert await append(bookie, frame_of(7, [entry_id])) == [Status.READ_ONLY]
                await bookie.room()

    run(test())


def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    async def test() -> None:
        bookie = await open_bookie(tmp_path)
        answers = [submit(bookie, frame_of(7, [n])) for n in range(50)]
        await bookie.close()
        assert [answer.result() for answer in answers] == [(OK, "")] * 50
        async with bookie_on(tmp_path) as bookie:
            assert await read(bookie, 7) == entries(7, range(50))

    run(test())


def test_after_a_failed_sync_nothing_is_acknowledged_and_the_bookie_says_why(tmp_path: Path) -> None:
    """B1"""

    async def test() -> None:
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

    run(test())


def test_counters_tell_what_was_added_since_the_start(tmp_path: Path) -> None:
    async def test() -> None:
        async with bookie_on(tmp_path) as bookie:
            await append(bookie, frame_of(7, range(3)), frame_of(7, [], lac=1))
            assert (bookie.counters.entries_added, bookie.counters.bytes_added) == (3, 60)
            assert bookie.syncs >= 1
        async with bookie_on(tmp_path) as bookie:
            assert (bookie.counters.entries_added, bookie.counters.bytes_added, bookie.syncs) == (0, 0, 0)

    run(test())


# --- any crash, with everything in place

LIVES = 4
FRAMES_PER_LIFE = 8


async def _first_of(bookie: Bookie, asked: list[asyncio.Task[None]]) -> None:
    """Returns when one of the requests is answered, or the log has failed."""
    either: list[asyncio.Future[Any]] = [*asked, bookie.failed]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)


async def _one_life(directory: Path, disk: SimulatedDisk, random: Random, known: dict[int, set[int]]) -> None:
    """Appends and fences until the power goes; `known` gathers what was acknowledged, −1 for a fence."""
    try:
        bookie = await open_bookie(directory, disk, checkpoint_frames_max=3)
    except OSError:
        return
    checkpoints = asyncio.create_task(bookie.run_checkpoints())

    async def ask(ledger_id: int, entry_id: int) -> None:
        if entry_id < 0:
            status, _ = await bookie.fence(ledger_id)
        else:
            [status] = await append(bookie, frame_of(ledger_id, [entry_id], lac=entry_id - 1))
        if status is OK:
            known.setdefault(ledger_id, set()).add(entry_id)
        else:
            assert status is Status.FENCED or bookie.failed.done()

    asked = []
    for _ in range(FRAMES_PER_LIFE):
        asked.append(asyncio.create_task(ask(random.randrange(4), random.randrange(-1, 12))))
        if random.random() < 0.4:
            await _first_of(bookie, asked)
    while not bookie.failed.done() and (waiting := [one for one in asked if not one.done()]):
        await _first_of(bookie, waiting)
    disk.power_off_before(0)
    checkpoints.cancel()
    await asyncio.wait([checkpoints])
    await bookie.close()
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    for one in asked:
        if not one.cancelled():
            one.result()  # raises what the checks in `ask` found


@pytest.mark.parametrize("seed", range(24))
def test_a_bookie_that_crashes_again_and_again_keeps_all_it_acknowledged(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1, B2, R1"""
    use_small_sizes(monkeypatch, segment=1200, group=420, step=600)

    async def test(directory: Path) -> None:
        random = Random(seed)
        disk = SimulatedDisk(random)
        known: dict[int, set[int]] = {}
        for _ in range(LIVES):
            disk.power_off_before(random.randrange(5, 60))
            await _one_life(directory, disk, random, known)
            disk.crash()
        async with bookie_on(directory, disk) as bookie:
            for ledger_id, entry_ids in known.items():
                stored = entry_ids - {-1}
                found = await read(bookie, ledger_id) if stored else []
                assert [one for one in found if one[0] in stored] == entries(ledger_id, sorted(stored))
                if -1 in entry_ids:
                    assert await append(bookie, frame_of(ledger_id, [99])) == [Status.FENCED]

    with TemporaryDirectory() as directory:
        run(test(Path(directory)))
