"""Readers of logs follow rolls and fail-overs, and find records by their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledgers import EntryTooLarge, NewRecord
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.segment_pages import turn_page
from metadata.records.logs.log_store import LogStore
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

from .log_states import gone, is_clean, positions

EPOCH = datetime.fromtimestamp(0, UTC)


async def test_a_tail_goes_on_over_rolls_and_fail_overs_and_sees_each_record_once(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log = await client.create_log("orders", roll_records=20)

    async def write() -> None:
        for n in range(10):
            async with LedgerClient(cluster.uri, config=QUICK) as own:  # dies without closing its writer
                writer = await (await own.log("orders")).writer()
                for k in range(30):
                    await writer.append(b"%d" % (30 * n + k))

        async with await log.writer():
            pass  # what the last one confirmed in its last moment nobody else knows yet

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        seen = []
        async for record in log.tail():
            seen.append((record.position, record.payload))
            if len(seen) == 300:
                break
    assert seen == [(n, b"%d" % n) for n in range(300)]


async def test_a_tail_without_news_ends_after_its_timeout_and_a_poll_returns_none(log: Log) -> None:
    assert [r async for r in log.tail(timeout=0)] == []
    async with await log.writer() as writer:
        await writer.append_batch([b"a", b"b", b"c"])
        assert [r.payload for r in await log.poll(0, timeout=5, records_max=2)] == [b"a", b"b"]
        assert await log.poll(3, timeout=0.1) == []
    assert [r.payload async for r in log.tail(1, timeout=0)] == [b"b", b"c"]
    assert [r async for r in log.tail(3, timeout=0.1)] == []


async def test_a_log_is_sought_by_the_time_of_its_records(log: Log) -> None:
    for _n in range(3):
        async with await log.writer() as writer:
            for _k in range(5):
                await writer.append(b"x")
    last = await log.writer()
    await last.append(b"x")
    times = [record.time async for record in log.read()]
    assert times == sorted(times)
    for time_us in sorted({0, *times, *(t + 1 for t in times)}):
        wanted = next((n for n, t in enumerate(times) if t >= time_us), len(times))
        assert await log.position_at(EPOCH + timedelta(microseconds=time_us)) == wanted
    await log.truncate(before=7)
    assert await log.position_at(EPOCH) == 7
    await last.close()


async def test_records_have_keys_headers_and_times_of_the_applications_own(log: Log) -> None:
    async with await log.writer() as writer:
        await writer.append(b"a", key=b"k", headers={"h": b"v"}, event_time=7)
        await writer.append_batch([b"b", NewRecord(b"c", key=b"")])
        with pytest.raises(EntryTooLarge):
            await writer.append(bytes(4 * 1024 * 1024))
    records = [record async for record in log.read()]
    assert [(r.payload, r.key, dict(r.headers), r.event_time) for r in records] == [
        (b"a", b"k", {"h": b"v"}, 7),
        (b"b", None, {}, None),
        (b"c", b"", {}, None),
    ]


async def test_a_tail_whose_watch_tells_nothing_goes_on_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: object, **__: object) -> AsyncGenerator[None, None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(LogStore, "watch", silent)
    monkeypatch.setattr("ledgers.logs.log_reader.LOOK_SECONDS", 0.02)
    async with on_bookies(tmp_path, 3) as (_, client):
        log = await client.log("orders", create=True)
        async with await log.writer() as writer:
            await writer.append(b"a")
        tail = log.tail()
        assert (await anext(tail)).payload == b"a"
        following = asyncio.create_task(anext(tail))
        await asyncio.sleep(0)
        async with await log.writer() as writer:
            await writer.append(b"b")
        assert (await following).payload == b"b"
        await tail.aclose()


async def test_a_tail_from_a_position_that_is_still_to_come_waits_for_it_over_segments(log: Log) -> None:
    writer = await log.writer()
    await writer.append(b"0")
    tail = log.tail(3)
    waiting = asyncio.create_task(anext(tail))
    await writer.append(b"1")
    await writer.close()
    async with await log.writer() as writer:
        await writer.append_batch([b"2", b"3"])
        assert (await waiting)[:2] == (3, b"3")
    await tail.aclose()


async def test_a_time_of_which_all_was_given_up_leads_to_the_oldest_record_that_is_left(
    client: LedgerClient, log: Log
) -> None:
    for n in range(4):
        async with await log.writer() as writer:
            await writer.append(b"%d" % n)
    segments = (await log.refresh()).segments
    await turn_page(log._chain, segments[:3])
    await log.truncate(before=2)
    await until_true(lambda: gone(client, segments[1].ledger_id))
    assert await log.position_at(EPOCH) == 2
    assert [s.first_position async for s in log.segments()] == [2, 3]
    await log.truncate(before=3)
    await until_true(lambda: is_clean(log, 3))
    assert await log.position_at(EPOCH) == 3
    assert await positions(log) == [3]
