"""Cursors on real bookies: kept, never back but by a seek, and one consumer at a time.

L8: a commit of what was read before a seek or a take-over is refused, and so is one beyond the end. That it spoils no
other one: test_one_end.py.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from ledgers import (
    CursorClosed,
    CursorMoved,
    Lag,
    LogTruncated,
    NoSuchCursor,
    NoSuchLog,
    NoSuchPosition,
    Record,
)
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from ledgers.logs.cursors import consumption
from ledgers.logs.cursors.cursor_calls import CursorState
from ledgers.logs.log import Log
from metadata import keys
from metadata.records.coordination.cursor_record import CursorRecord
from tests.support.aio import until_true
from tests.support.in_process import InProcessCluster

NEVER = 3600.0
"""What is committed is written by `flush` and `close` only."""


async def log_of(client: LedgerClient, records: int, roll_records: int = 1000) -> Log:
    log = await client.create_log("orders", roll_records=roll_records)
    await append(log, records)
    return log


async def append(log: Log, records: int) -> None:
    async with await log.writer() as writer:
        await writer.append_batch([b"%d" % n for n in range(records)])


async def stored(log: Log, name: str = "billing") -> int:
    return dict([found async for found in log.cursors()])[name].position


async def used(records: AsyncGenerator[Record, None], count: int) -> list[int]:
    """Takes so many records, and asks for one more, so that they count as used."""
    positions = [(await anext(records)).position for _ in range(count)]
    await anext(records)
    return positions


async def test_a_cursor_is_created_where_it_is_told_to_begin_and_stays_there(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    before = datetime.now(UTC) - timedelta(hours=1)
    for name, start, position in [
        ("oldest", "beginning", 0),
        ("newest", "end", 10),
        ("an hour ago", before, 0),
        ("tomorrow", before + timedelta(days=1), 10),
        ("seventh", 7, 7),
    ]:
        name = name.replace(" ", "-")
        async with await log.cursor(name, start=start) as cursor:  # type: ignore[arg-type]
            assert cursor.position == position
    await append(log, 5)
    async with await log.cursor("newest", start="beginning") as cursor:
        assert cursor.position == 10
    assert [name async for name, _ in log.cursors()] == [
        "an-hour-ago",
        "newest",
        "oldest",
        "seventh",
        "tomorrow",
    ]


@pytest.mark.parametrize("start", [-1, 11, "middle"])
async def test_a_cursor_cannot_begin_where_the_log_has_no_position(
    client: LedgerClient, start: int | str
) -> None:
    log = await log_of(client, 10)
    with pytest.raises(ValueError, match=r"positions begin at 0|ends before position 10|not 'middle'"):
        await log.cursor("billing", start=start)  # type: ignore[arg-type]
    assert [found async for found in log.cursors()] == []


async def test_commits_are_joined_and_written_at_the_latest_when_the_cursor_is_closed(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, writes = await log_of(client, 100), list[int]()
    change = CursorState.change

    async def counted(state: CursorState, transition: object) -> CursorRecord:
        record = await change(state, transition)  # type: ignore[arg-type]
        writes.append(record.position)
        return record

    monkeypatch.setattr(CursorState, "change", counted)
    async with await log.cursor("billing", commit_seconds=NEVER) as cursor:
        for position in range(1, 50):
            cursor.commit(position)
        cursor.commit(20)
        assert cursor.position == 0
        await cursor.flush()
        assert cursor.position == 49
        cursor.commit(60)
    assert writes == [49, 60]
    assert await stored(log) == 60
    with pytest.raises(CursorClosed):
        cursor.commit(70)


async def test_what_is_committed_is_written_soon_by_itself(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    async with await log.cursor("billing", commit_seconds=0.05) as cursor:
        cursor.commit(4)
        await until_true(lambda: _is(stored(log), 4))
        cursor.commit(6)
        await until_true(lambda: _is(stored(log), 6))


async def _is(found: object, wanted: int) -> bool:
    return await found == wanted  # type: ignore[misc, no-any-return]


async def test_a_cursor_that_commits_nothing_at_its_end_leaves_what_was_written(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    async with await log.cursor("billing", commit_seconds=NEVER, commits_at_close=False) as cursor:
        cursor.commit(4)
    assert await stored(log) == 0


async def test_L8_a_late_commit_cannot_undo_a_seek(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    reader = await log.cursor("billing", commit_seconds=NEVER)
    reader.commit(8)
    await reader.flush()
    async with await log.cursor("billing") as operator:
        assert await operator.seek(3) == 3
    reader.commit(9)
    with pytest.raises(CursorMoved, match="cursor 'billing' of log 'orders' was moved to position 3"):
        await reader.flush()
    assert await stored(log) == 3
    assert await reader.refresh() == 3
    reader.commit(4)
    await reader.close()
    assert await stored(log) == 4


async def test_a_background_write_that_finds_a_seek_tells_at_the_next_commit(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    async with await log.cursor("billing", commit_seconds=0.01) as reader:
        async with await log.cursor("billing") as operator:
            await operator.seek("end")
        reader.commit(8)
        await until_true(lambda: _true(reader.failure is not None))
        with pytest.raises(CursorMoved):
            reader.commit(9)
        await reader.refresh()
    assert await stored(log) == 10


async def _true(is_so: bool) -> bool:
    return is_so


async def test_L8_what_is_behind_the_end_is_not_committed(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    cursor = await log.cursor("billing", commit_seconds=NEVER)
    cursor.commit(11)
    with pytest.raises(
        NoSuchPosition, match="log 'orders' ends before position 10, so position 11 is beyond its end"
    ):
        await cursor.close()
    assert await stored(log) == 0


async def test_a_deleted_cursor_takes_no_commits_and_goes_with_its_log(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log = await log_of(client, 10)
    cursor = await log.cursor("billing", commit_seconds=NEVER)
    await log.delete_cursor("billing")
    with pytest.raises(NoSuchCursor, match="log 'orders' has no cursor 'billing'"):
        await log.delete_cursor("billing")
    cursor.commit(3)
    with pytest.raises(NoSuchCursor):
        await cursor.close()
    await log.cursor("another")
    await client.delete_log("orders")
    with pytest.raises(NoSuchLog):
        [found async for found in log.cursors()]
    assert (await cluster.store.list_page(keys.CURSORS)).items == ()


async def test_a_closed_client_writes_what_its_cursors_have_committed(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log = await log_of(client, 10)
    async with LedgerClient(cluster.uri) as other:
        cursor = await (await other.log("orders")).cursor("billing", commit_seconds=NEVER)
        cursor.commit(3)
    assert await stored(log) == 3


async def test_the_lag_is_told_in_records_bytes_and_seconds(client: LedgerClient) -> None:
    log = await log_of(client, 0, roll_records=10)
    async with await log.writer() as writer:
        for n in range(35):
            await writer.append(b"%090d" % n)
        await until_true(lambda: _is(log.end(), 35))
        times = [record.time / 1_000_000 async for record in log.read()]
        async with await log.cursor("billing", commit_seconds=NEVER) as cursor:
            for position, size_bytes in ((0, 3500), (15, 2000), (32, 300)):
                await cursor.seek(position)
                before = time.time()
                lag = await cursor.lag()
                assert (lag.records, lag.bytes, lag.truncated) == (35 - position, size_bytes, 0)
                assert before - times[position] <= lag.seconds <= time.time() - times[position]
            await cursor.seek("end")
            assert await cursor.lag() == Lag(0, 0, 0.0)


async def test_a_cursor_below_a_truncation_says_so_and_stays_until_somebody_seeks(
    client: LedgerClient,
) -> None:
    log = await log_of(client, 10)
    cursor = await log.cursor("billing")
    await log.truncate(6)
    assert (await cursor.lag()).truncated == 6
    assert (await cursor.lag()).records == 4
    async with aclosing(log.consume("billing", timeout=0)) as records:
        with pytest.raises(LogTruncated, match="position 0 of log 'orders' was truncated"):
            await anext(records)
    assert await stored(log) == 0
    await cursor.seek("beginning")
    assert [record.position async for record in log.consume("billing", timeout=0)] == [6, 7, 8, 9]


async def test_a_consumer_goes_on_where_the_last_one_stopped(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    async with aclosing(log.consume("billing")) as records:
        assert await used(records, 4) == [0, 1, 2, 3]
    assert await stored(log) == 4, "the record that was given last was not used"
    assert [record.position async for record in log.consume("billing", timeout=0)] == [4, 5, 6, 7, 8, 9]
    assert await stored(log) == 10
    assert [record.position async for record in log.consume("billing", timeout=0)] == []
    await append(log, 2)
    assert [record.position async for record in log.consume("billing", timeout=0)] == [10, 11]


async def test_a_second_consumer_waits_and_takes_over_when_the_first_one_ends(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    first = log.consume("billing", consumer="first")
    assert await used(first, 3) == [0, 1, 2]
    second = log.consume("billing", consumer="second")
    waiting = asyncio.ensure_future(anext(second))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    await first.aclose()
    assert (await waiting).position == 3
    found = dict([found async for found in log.cursors()])["billing"]
    assert (found.consumer, found.epoch) == ("second", 2)
    await second.aclose()


async def test_L8_a_consumer_that_lost_its_place_commits_nothing_more_and_queues_up_again(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log = await log_of(client, 10)
    reading = log.consumption("billing", consumer="first", commit_seconds=NEVER, lease_seconds=1)
    first = reading.records()
    assert await used(first, 3) == [0, 1, 2]
    (place,) = (await cluster.store.list_page(keys.CANDIDATES)).items
    await cluster.store.delete(place.key, place.version)
    await until_true(lambda: _true(reading.is_over))
    second = log.consume("billing", consumer="second")
    assert await used(second, 5) == [0, 1, 2, 3, 4], "nothing of the first one was written"
    again = asyncio.ensure_future(anext(first))
    await until_true(lambda: _has_two(cluster))
    await second.aclose()
    assert (await again).position == 5
    await first.aclose()
    assert await stored(log) == 5


async def _has_two(cluster: InProcessCluster) -> bool:
    return len((await cluster.store.list_page(keys.CANDIDATES)).items) == 2


async def test_a_seek_moves_a_consumer_that_reads_and_one_that_waits(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumption, "LOOK_SECONDS", 0.05)
    log = await log_of(client, 10)
    async with (
        await log.cursor("billing") as operator,
        aclosing(log.consume("billing", commit_seconds=0.01)) as records,
    ):
        assert await used(records, 3) == [0, 1, 2]
        await operator.seek(8)
        positions = [4]
        while positions[-1] < 8:
            positions.append((await anext(records)).position)
            await asyncio.sleep(0.02)
        assert (await anext(records)).position == 9
        waiting = asyncio.ensure_future(anext(records))
        await operator.seek(5)
        assert (await waiting).position == 5


def test_blocking_programs_have_cursors_and_consume(uri: str) -> None:
    with BlockingClient(uri) as client:
        log = client.log("orders", create=True)
        with log.writer() as writer:
            writer.append_batch([b"%d" % n for n in range(10)])
        with log.cursor("billing", start="end", commit_seconds=NEVER) as cursor:
            assert cursor.position == 10
            assert cursor.seek(2) == 2
            cursor.commit(4)
            cursor.flush()
            assert (cursor.position, cursor.refresh(), cursor.lag().records) == (4, 4, 6)
            cursor.commit(5)
        assert [record.position for record in log.consume("billing", timeout=0)] == [5, 6, 7, 8, 9]
        assert [(name, record.position) for name, record in log.cursors()] == [("billing", 10)]
        for record in log.consume("other"):
            if record.position == 7:
                break
        client.close()
        with BlockingClient(uri) as again:
            log = again.log("orders")
            assert {name: record.position for name, record in log.cursors()} == {"billing": 10, "other": 7}
            log.delete_cursor("other")


CONSUMER = """
import sys
import time
from ledgers import LedgerClient
with LedgerClient(sys.argv[1]) as client:
    for record in client.log("bills").consume("billing", lease_seconds=1, commit_seconds=0.01):
        print(record.position, flush=True)
        sys.stdin.readline()
"""


def test_a_consumer_that_is_killed_is_followed_and_no_record_is_passed_over(uri: str) -> None:
    with BlockingClient(uri) as client:
        log = client.log("bills", create=True)
        with log.writer() as writer:
            writer.append_batch([b"%d" % n for n in range(10)])
        command = [sys.executable, "-c", CONSUMER, uri]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for n in range(5):
                assert process.stdout.readline() == f"{n}\n"
                process.stdin.write("\n")
                process.stdin.flush()
            process.kill()
        positions = [record.position for record in log.consume("billing", timeout=0)]
        assert positions[0] <= 5
        assert positions == list(range(positions[0], 10))
