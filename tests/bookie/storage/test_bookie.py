"""A bookie keeps and shows what was appended, ledger by ledger, within its limits."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from random import Random

import pytest

from bookie.disk.disk import OsDisk, OsFile
from bookie.errors import LogFailed
from bookie.storage.bookie import Bookie
from bookie.wire.columnar_entries import NO_ENTRIES
from bookie.wire.messages import (
    Credential,
    EntryRange,
    Frame,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    LacReply,
    ReadReply,
    Status,
)
from tests.bookie.bookies import (
    ALL_ENTRIES,
    append,
    bookie_on,
    entries,
    lac_request,
    open_bookie,
    read,
    read_request,
    submit,
)
from tests.bookie.entries import columns_of, frame_of, lac_of
from tests.bookie.logs import INCARNATION, WAIT_SECONDS_MAX
from tests.bookie.simulated_disk import SimulatedDisk
from tests.bookie.slow_disk import SlowSyncDisk
from tests.support.aio import cancel

OK = Status.OK


async def test_what_was_appended_is_read(bookie: Bookie) -> None:
    assert await append(bookie, frame_of(7, range(3)), frame_of(7, [3], lac=2)) == [OK, OK]
    assert await read(bookie, 7) == entries(7, range(4))
    assert await read(bookie, 7, 1, 2) == entries(7, [1, 2])
    reply = await bookie.read(read_request(7, 3, 3))
    assert reply.last_add_confirmed == lac_of(2)


async def test_ledgers_do_not_see_each_other(bookie: Bookie) -> None:
    await append(bookie, frame_of(7, [0, 1]), frame_of(8, [1, 2]))
    assert (await read(bookie, 7), await read(bookie, 8)) == (entries(7, [0, 1]), entries(8, [1, 2]))


async def test_a_ledger_nobody_wrote_to_is_no_such_ledger(bookie: Bookie) -> None:
    assert await bookie.read(read_request(7)) == ReadReply(Status.NO_SUCH_LEDGER, NO_ENTRIES, ALL_ENTRIES)
    assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(Status.NO_SUCH_LEDGER)


async def test_a_range_that_is_none_is_a_bad_request(bookie: Bookie) -> None:
    for ledger_id, first, last in ((7, 3, 2), (7, -1, 2), (-1, 0, 0)):
        reply = await bookie.read(read_request(ledger_id, first, last))
        assert reply.status is Status.BAD_REQUEST


async def test_a_damaged_record_is_an_io_error_for_its_entries_and_no_others(
    tmp_path: Path, bookie: Bookie
) -> None:
    await append(bookie, frame_of(7, [0, 1]))
    await append(bookie, frame_of(7, [2]))
    path = tmp_path / "log" / "00000000.log"
    data = bytearray(path.read_bytes())
    data[64 + 90] ^= 1
    path.write_bytes(data)
    reply = await bookie.read(read_request(7, 0, 9))
    assert (reply.status, reply.columns.ids.tolist()) == (OK, [2])  # type: ignore[attr-defined]
    assert (reply.covered_through, reply.damaged) == (9, (EntryRange(0, 1),))


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    bookie = await open_bookie(tmp_path)
    answers = [submit(bookie, frame_of(7, [n])) for n in range(50)]
    await bookie.close()
    assert [answer.result() for answer in answers] == [(OK, "")] * 50
    async with bookie_on(tmp_path) as bookie:
        assert await read(bookie, 7) == entries(7, range(50))


async def test_counters_tell_what_was_added_since_the_start(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, range(3)), frame_of(7, [], lac=1))
        assert (bookie.metrics.counters.entries_added, bookie.metrics.counters.bytes_added) == (3, 60)
        assert bookie.syncs >= 1
    async with bookie_on(tmp_path) as bookie:
        counters = bookie.metrics.counters
        assert (counters.entries_added, counters.bytes_added, bookie.syncs) == (0, 0, 0)


# --- the last-add-confirmed, told at once or when it rises


async def test_the_last_add_confirmed_is_the_highest_one_on_disk(bookie: Bookie) -> None:
    await append(
        bookie,
        frame_of(7, [0]),
        frame_of(7, [1, 2], lac=0),
        frame_of(7, [], lac=2),
        frame_of(7, [], lac=1),
    )
    assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(2))


async def test_a_long_poll_is_answered_when_a_later_last_add_confirmed_is_on_disk_and_not_before(
    bookie: Bookie,
) -> None:
    await append(bookie, frame_of(7, [0, 1], lac=0))
    at_once = await bookie.last_add_confirmed(lac_request(7, beyond=-1, wait_ms=60_000))
    assert at_once == LacReply(OK, lac_of(0))
    waiting = asyncio.create_task(bookie.last_add_confirmed(lac_request(7, beyond=0, wait_ms=60_000)))
    await asyncio.sleep(0)
    await append(bookie, frame_of(7, [2], lac=0), frame_of(8, [0, 1], lac=1), frame_of(7, [3]))
    assert not waiting.done()
    await append(bookie, frame_of(7, [4], lac=1))
    assert await waiting == LacReply(OK, lac_of(1))


async def test_a_long_poll_ends_when_its_time_is_up(bookie: Bookie) -> None:
    await append(bookie, frame_of(7, [0], lac=-1))
    reply = await bookie.last_add_confirmed(lac_request(7, beyond=5, wait_ms=20))
    assert reply == LacReply(OK, lac_of(-1))
    assert bookie._lac_waiters.ledgers == 0


async def test_nobody_waits_for_news_from_a_bookie_that_stops(bookie: Bookie) -> None:
    asked = lac_request(7, wait_ms=60_000)
    waiting = [asyncio.create_task(bookie.last_add_confirmed(asked)) for _ in range(3)]
    await asyncio.sleep(0)
    bookie.end_waits()
    expected = LacReply(Status.NO_SUCH_LEDGER)
    assert [await one for one in waiting] == [expected] * 3
    assert await bookie.last_add_confirmed(asked) == expected


# --- limits, and a disk that is full or broken


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


async def test_after_a_failed_sync_nothing_is_acknowledged_and_the_bookie_says_why(tmp_path: Path) -> None:
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


# --- what a page lacks is denied once the index is known to be whole


async def test_the_index_is_asked_once_in_a_life_whether_it_has_lost_what_a_page_lacks(
    bookie: Bookie, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6: it takes time with the ledger's frames, so a page that lacks nothing does not wait for it."""
    asked: list[int] = []

    def is_whole(ledger_id: int) -> bool:
        asked.append(ledger_id)
        return True

    await append(bookie, frame_of(7, [0, 1]), frame_of(8, [0]))
    monkeypatch.setattr(bookie.index, "is_whole", is_whole)
    assert await read(bookie, 7, 0, 1) == entries(7, [0, 1])
    assert asked == []
    for ledger_id in (7, 8, 7, 8):
        await read(bookie, ledger_id, 0, 9)
    assert asked == [7, 8]


@pytest.mark.parametrize("digest", [b"", bytes(8)])
@pytest.mark.parametrize("verifier", [b"", bytes(32)])
async def test_holdings_tell_the_bytes_of_payload_and_of_nothing_else_in_a_record(
    bookie: Bookie, digest: bytes, verifier: bytes
) -> None:
    columns = columns_of([(n, bytes(20), digest) for n in range(4)])
    frame = Frame(7, columns, lac_of(-1) if digest else None, credential=Credential(verifier))
    assert await append(bookie, frame) == [OK]
    reply = await bookie.holdings(HoldingsRequest(INCARNATION, 7, 0, 9, 1000))
    assert reply == HoldingsReply(OK, (Holding(0, 3, 4, 80),), 9)


# --- opening, which leaves the event loop free while the log is read


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
