"""Logs on real bookies: one writer after another, positions without holes, readers that see what is confirmed.

L1: a former writer is fenced and changes nothing: it confirms nothing more, and adds no segment.
L5: a conflict that is no later epoch costs a writer nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledgers import LedgerClient as BlockingClient
from ledgers import (
    LedgerFenced,
    LogClosed,
    LogExists,
    LogFenced,
    LogTruncated,
    NewRecord,
    NoSuchLog,
)
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.log_segment_ledgers import LogSegmentLedgers
from ledgers.logs.writing.log_writer import LogWriter
from ledgers.writing.write_handle import WriteHandle
from metadata import keys
from metadata.errors import OutcomeUnknown
from metadata.records.logs.log_record import PAGE_SEGMENTS, SEGMENTS_MAX, LogRecord
from metadata.version import Version
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

from .log_states import gone, is_clean, payloads, positions


async def test_positions_count_on_from_one_writer_to_the_next(log: Log) -> None:
    for n in range(3):
        async with await log.writer() as writer:
            assert [await writer.append(b"%d" % n), await writer.append(b"x")] == [2 * n, 2 * n + 1]
    assert await payloads(log) == [b"0", b"x", b"1", b"x", b"2", b"x"]
    assert await positions(log, 3) == [3, 4, 5]
    assert [await log.first_position(), await log.end()] == [0, 6]


async def test_L1_a_fenced_writer_gets_LogFenced_at_its_next_append_and_confirms_nothing_more(
    log: Log,
) -> None:
    old = await log.writer("old")
    await old.append(b"confirmed")
    new = await log.writer("new")
    with pytest.raises(LogFenced, match=r"new, epoch 2.*the first unconfirmed position is 1"):
        await old.append(b"too late")
    with pytest.raises(LogFenced):
        await old.append(b"too late")
    assert await new.append(b"on") == 1
    await new.close()
    with pytest.raises(LogFenced):
        await old.close()
    assert await payloads(log) == [b"confirmed", b"on"]


async def test_rolling_under_load_keeps_the_order_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ledgers.logs.writing.writer_shell.MAKE_SECONDS_MAX", 30.0
    )  # however busy the machine is
    async with on_bookies(tmp_path, 3) as (_, client):
        log = await client.create_log("orders", roll_records=50)
        writer = await log.writer()
        futures = []
        for n in range(3000):
            futures.append(await writer.append_async(b"%d" % n))
            if n % 100 == 99:
                await futures[max(0, n - 100)]
        await writer.flush()
        assert [f.result() for f in futures] == list(range(3000))
        await writer.close()
        segments = [s async for s in log.segments()]
        assert len(segments) > 5
        assert await payloads(log) == [b"%d" % n for n in range(3000)]


async def test_a_writer_that_is_closed_while_it_rolls_leaves_no_ledger_that_no_log_needs(
    client: LedgerClient,
) -> None:
    log = await client.create_log("orders", roll_records=10)
    for _n in range(5):
        async with await log.writer() as writer:
            await writer.append_batch([b"%d" % n for n in range(11)])
    segments = {s.ledger_id async for s in log.segments()}
    assert {record.ledger_id async for record in client.list_ledgers()} == segments


async def test_a_ledger_that_somebody_recovered_is_followed_by_another_and_no_record_is_lost(
    client: LedgerClient, log: Log
) -> None:
    """Its own writer goes on: the log was not taken over."""
    async with await log.writer() as writer:
        for n in range(10):
            await writer.append(b"%d" % n)
        last = writer.record.last
        assert last is not None
        await client.open_ledger(last.ledger_id)
        futures = [await writer.append_async(b"%d" % n) for n in range(10, 200)]
        assert [await f for f in futures] == list(range(10, 200))
    assert await payloads(log) == [b"%d" % n for n in range(200)]
    assert len([s async for s in log.segments()]) == 2


async def test_writers_that_append_nothing_leave_no_segment_and_disturb_nobody(log: Log) -> None:
    for _n in range(3):
        async with await log.writer():
            pass
    abandoned = await log.writer()
    await abandoned.abandon()
    assert await payloads(log) == []
    async with await log.writer() as writer:
        assert await writer.append(b"first") == 0
    assert await payloads(log) == [b"first"]
    assert len([s async for s in log.segments()]) == 1


async def test_a_truncation_is_exact_and_deletes_whole_segments_in_the_background(
    client: LedgerClient, log: Log
) -> None:
    for n in range(3):
        async with await log.writer() as writer:
            await writer.append_batch([b"%d" % (10 * n + k) for k in range(10)])
    ledgers = [s.ledger_id async for s in log.segments()]
    await log.truncate(before=15)
    assert await positions(log) == list(range(15, 30))
    with pytest.raises(LogTruncated, match="the oldest one left is 15") as told:
        await positions(log, 14)
    assert told.value.first_position == 15
    await log.truncate(before=7)
    assert await log.first_position() == 15, "a truncation never goes back"
    with pytest.raises(ValueError, match="ends before position 30"):
        await log.truncate(before=31)
    await until_true(lambda: gone(client, ledgers[0]))
    assert [s.ledger_id async for s in log.segments()] == ledgers[1:]
    async with await log.writer() as writer:
        assert await writer.append(b"30") == 30


async def test_L5_a_truncation_under_a_healthy_writer_costs_it_nothing(client: LedgerClient) -> None:
    log = await client.create_log("orders", roll_records=10)
    async with await log.writer() as writer:
        for n in range(100):
            assert await writer.append(b"%d" % n) == n
            await log.truncate(before=n)
        assert writer.epoch == 1
    assert await positions(log) == [99]


async def test_a_deleted_log_is_gone_with_its_ledgers_and_its_writer_is_fenced(
    client: LedgerClient, log: Log
) -> None:
    async with await log.writer() as first:
        await first.append(b"old")
    writer = await log.writer()
    await writer.append(b"old")
    ledgers = [s.ledger_id async for s in log.segments()]
    await client.delete_log("orders")
    with pytest.raises(NoSuchLog):
        await writer.append(b"too late")
    with pytest.raises(NoSuchLog):
        await log.end()
    with pytest.raises(NoSuchLog):
        await client.log("orders")
    assert all([await gone(client, ledger_id) for ledger_id in ledgers])
    new = await client.create_log("orders")
    assert await new.end() == 0


async def test_a_renamed_log_keeps_its_writer_and_its_old_name_is_free(
    client: LedgerClient, log: Log
) -> None:
    async with await log.writer() as writer:
        await writer.append(b"a")
        await client.rename_log("orders", "old-orders")
        await writer.append(b"b")
    with pytest.raises(NoSuchLog):
        await client.log("orders")
    await client.create_log("orders")
    with pytest.raises(LogExists):
        await client.rename_log("orders", "old-orders")
    assert await payloads(await client.log("old-orders")) == [b"a", b"b"]
    assert [name async for name, _ in client.list_logs()] == ["old-orders", "orders"]


async def test_many_segments_go_to_pages_and_are_read_from_there(client: LedgerClient) -> None:
    log = await client.create_log("orders", ensemble_size=1, roll_records=1)
    async with await log.writer() as writer:
        for n in range(8 * PAGE_SEGMENTS):
            assert await writer.append(b"%d" % n) == n
            if writer.record.paged_through:
                break
        assert writer.record.paged_through > 0
    count = await log.end()
    assert await payloads(log) == [b"%d" % n for n in range(count)]
    assert [s.first_position async for s in log.segments()] == sorted(
        {s.first_position async for s in log.segments()}
    )
    async with await log.writer() as writer:
        assert await writer.append(b"last") == count
    await log.truncate(before=count)  # the second writer's segment; one before it may hold two records
    await until_true(lambda: is_clean(log, count))
    assert await positions(log) == [count]


async def test_a_log_that_is_only_taken_over_and_never_rolls_has_room_for_one_more_writer(
    client: LedgerClient,
) -> None:
    log = await client.create_log("orders", ensemble_size=1, write_quorum=1, ack_quorum=1)
    for n in range(SEGMENTS_MAX + 2):
        writer = await log.writer()
        assert await writer.append(b"%d" % n) == n
        await writer.abandon()
        assert len(writer.record.segments) <= 2 * PAGE_SEGMENTS
    async with await log.writer():
        assert await positions(log) == list(range(SEGMENTS_MAX + 2))


async def test_L1_a_writer_whose_epoch_was_taken_adds_no_segment_and_confirms_nothing_of_it(
    client: LedgerClient,
) -> None:
    """The one that takes over hangs before it fences anything."""
    log = await client.create_log("orders", roll_records=1)
    old = await log.writer("old")
    await log.refresh()
    await log._chain.change(lambda record: record.taken_over("hangs"))
    assert await old.append(b"0") == 0, "its segment is not fenced yet"
    with pytest.raises(LogFenced, match=r"hangs, epoch 2.*first unconfirmed position is 1"):
        await old.append(b"lost")
    async with await log.writer() as new:
        assert await new.append(b"1") == 1
    assert await payloads(log) == [b"0", b"1"]


async def test_L1_of_two_writers_to_which_metadata_that_went_back_gave_one_epoch_the_first_with_a_segment_goes_on(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them stood still between its epoch and its segment: no ledger told of that epoch."""
    create, log = LogSegmentLedgers.create, await client.create_log("orders")
    others: list[LogWriter] = []

    async def late(self: LogSegmentLedgers, record: LogRecord, start: int) -> WriteHandle:
        if record.writer == "late":
            await log.refresh()
            await log._chain.change(lambda record: replace(record, epoch=record.epoch - 1))
            others.append(await log.writer("other"))
        return await create(self, record, start)

    monkeypatch.setattr(LogSegmentLedgers, "create", late)
    with pytest.raises(LogFenced, match="other, epoch 1"):
        await (await client.log("orders")).writer("late")
    (other,) = others
    assert await other.append(b"0") == 0
    await other.close()
    assert await payloads(log) == [b"0"]


async def test_a_change_of_the_record_whose_answer_is_lost_is_done_once(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await client.create_log("orders", roll_records=10)
    store, lost = log._chain.logs.store, []
    replaced = store.replace

    async def without_answer(key: str, value: bytes, version: Version, **how: Any) -> int:
        done = await replaced(key, value, version, **how)
        if key.startswith(keys.LOGS) and value not in lost:
            lost.append(value)
            raise OutcomeUnknown("the answer was lost")
        return done

    monkeypatch.setattr(store, "replace", without_answer)
    async with await log.writer() as writer:
        for n in range(100):
            assert await writer.append(b"%d" % n) == n
        assert writer.epoch == 1
    assert len(lost) > 5
    assert await positions(log) == list(range(100))
    chain = [s async for s in log.segments()]
    assert len({s.ledger_id for s in chain}) == len(chain)


async def test_closing_a_client_closes_its_writers(cluster: InProcessCluster, client: LedgerClient) -> None:
    async with LedgerClient(cluster.uri, config=QUICK) as own:
        writer = await (await own.log("orders", create=True)).writer()
        await writer.append(b"a")
    with pytest.raises(LogClosed, match="was closed"):
        await writer.append(b"b")
    assert await positions(await client.log("orders")) == [0]
    async with await (await client.log("orders")).writer() as following:
        assert await following.append(b"b") == 1


def test_logs_in_ordinary_code(uri: str) -> None:
    with BlockingClient(uri) as client:
        log = client.log("orders", create=True)
        with log.writer() as writer:
            assert [writer.append(b"a"), writer.append(b"b", key=b"k")] == [0, 1]
            assert writer.append_batch([b"c", NewRecord(b"d")]) == range(2, 4)
            assert writer.append_nowait(b"e") == 4
            writer.confirmed(4)
            futures = [writer.append_async(b"%d" % n) for n in range(1000)]
            assert [f.result() for f in futures] == list(range(5, 1005))
        with log.writer() as writer:
            assert writer.append(b"on") == 1005
        assert [r.payload for r in log.read(0, 5)] == [b"a", b"b", b"c", b"d", b"e"]
        assert sum(1 for _ in log) == 1006
        assert [r.position for r in log.tail(1004, timeout=0)] == [1004, 1005]
        assert log.poll(1006, timeout=0) == []
        assert log.position_at(datetime.now(UTC)) == log.end() == 1006
        log.truncate(1005)
        assert [r.payload for r in log] == [b"on"]
        assert len(list(log.segments())) in (1, 2)
        client.rename_log("orders", "others")
        assert [name for name, _ in client.list_logs()] == ["others"]
        client.delete_log("others")
        with pytest.raises(NoSuchLog):
            log.end()


async def test_a_writer_whose_ledger_failed_before_it_began_goes_on_in_another_one(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = LogSegmentLedgers.create
    made: list[int] = []

    async def failed_at_first(self: LogSegmentLedgers, record: LogRecord, start: int) -> WriteHandle:
        handle = await create(self, record, start)
        made.append(handle.ledger_id)
        if len(made) == 1:
            await client.open_ledger(handle.ledger_id)
            with pytest.raises(LedgerFenced):
                await handle.append(b"of nobody")
        return handle

    log = await client.log("orders", create=True)
    monkeypatch.setattr(LogSegmentLedgers, "create", failed_at_first)
    async with await log.writer() as writer:
        assert await writer.append(b"0") == 0
    assert await payloads(log) == [b"0"]
    assert len(made) == 2
