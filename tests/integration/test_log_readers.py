"""Readers of logs in situations in which readers of other logs stopped, skipped, or saw what is another's."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookledger.errors import LedgerIdReused, LogFenced, MetadataWentBack, NotEnoughAnswers
from ledgers import LogTruncated
from ledgers.aio import LedgerClient
from ledgers.config import MIB
from ledgers.logs import log_access
from ledgers.logs.log import Log
from ledgers.logs.log_segment_ledgers import LogSegmentLedgers
from ledgers.logs.writing import takeover
from ledgers.recovering.ledger_deletion import delete
from metadata import keys
from metadata.records.logs.segment import Segment
from metadata.store import list_all
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies


async def filled(client: LedgerClient, count: int, *, record_bytes: int = 10) -> Log:
    """A log of so many records, ten in a segment."""
    log = await client.create_log("orders", roll_records=10)
    async with await log.writer() as writer:
        for first in range(0, count, 10):
            await writer.append_batch([b"%*d" % (record_bytes, n) for n in range(first, first + 10)])
    return log


async def test_two_reads_in_flight_at_one_place_do_not_disturb_each_other(client: LedgerClient) -> None:
    log = await filled(client, 100)
    tails = [log.tail(5) for _ in range(3)]
    async with asyncio.timeout(30):
        for position in range(5, 100):
            found = await asyncio.gather(*map(anext, tails))
            assert [record.position for record in found] == [position] * 3
    waiting = [asyncio.create_task(log.poll(100, timeout=30)) for _ in range(3)]
    async with await log.writer() as writer:
        await writer.append(b"100")
    assert [[r.position for r in await one] for one in waiting] == [[100]] * 3
    for tail in tails:
        await tail.aclose()


async def test_a_read_that_was_given_up_and_begun_again_sees_each_record_once(client: LedgerClient) -> None:
    log = await filled(client, 100)
    seen: list[int] = []
    while len(seen) < 100:
        tail = log.tail(len(seen))
        for _n in range(7):
            reading = asyncio.create_task(anext(tail))
            if len(seen) % 3 == 2:
                await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
                if reading.cancelled():
                    break
            seen.append((await reading).position)
            if len(seen) == 100:
                break
        await tail.aclose()
        if len(seen) % 3 == 2:  # else it would be given up for ever
            seen += [record.position for record in await log.poll(len(seen), timeout=30, records_max=1)]
    assert seen == list(range(100))


async def test_a_tail_that_finds_no_segment_for_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ledgers.logs.log_reader.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("ledgers.logs.log_reader.LATE_SECONDS", 0.05)

    async def told() -> bool:
        return "log 'orders' has had no segment from position 10 on" in caplog.text

    with caplog.at_level(logging.WARNING):
        async with on_bookies(tmp_path, 3) as (_, client):
            log = await filled(client, 10)
            tail = log.tail(10)
            waiting = asyncio.create_task(anext(tail))
            await until_true(told)
            async with await log.writer() as writer:
                await writer.append(b"10")
            assert (await waiting).position == 10
            await tail.aclose()


async def test_a_reader_of_what_is_given_up_meanwhile_is_told_that_it_is(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    """Whether it comes to the next segment, or is in the midst of one whose ledger is deleted."""

    log = await filled(client, 30, record_bytes=200_000)
    small = replace(QUICK, page_bytes=MIB, read_ahead_pages=1)  # a segment is of several pages
    async with LedgerClient(cluster.uri, config=small) as other:
        tail = (await other.log("orders")).tail(0)
        assert (await anext(tail)).position == 0
        await log.truncate(before=25)
        with pytest.raises(LogTruncated) as truncated:
            async for _record in tail:
                pass
        assert truncated.value.first_position == 25
        assert [r.position async for r in (await other.log("orders")).read()] == list(range(25, 30))


async def test_a_log_in_emptied_metadata_is_another_one_and_shows_nothing_of_the_old(
    client: LedgerClient,
) -> None:
    """Ledger ids begin anew, and the bookies still have the old ledgers: they refuse others of these ids."""

    old = await filled(client, 30)
    store = (await client._connected()).store
    for prefix in (keys.LEDGERS, keys.LOGS, keys.LOG_NAMES, keys.NEXT_LEDGER_ID):
        for item in [item async for item in list_all(store, prefix)]:
            await store.delete(item.key, item.version)
    with pytest.raises(MetadataWentBack, match="which was not deleted"):
        await old.end()
    (await client._connected()).ids._ids.clear()  # as a client has it that comes now
    new = await client.create_log("orders")
    async with asyncio.timeout(30):
        with pytest.raises(LedgerIdReused):
            await (await new.writer()).append(b"new")
        with pytest.raises(NotEnoughAnswers, match="not the one requested"):
            await anext(new.tail(timeout=0))
    assert new.record.identity != old.record.identity


@pytest.mark.parametrize("is_open_by_then", [False, True])
async def test_a_segment_that_ended_empty_is_not_missed_by_whoever_had_just_found_it(
    client: LedgerClient, log: Log, monkeypatch: pytest.MonkeyPatch, is_open_by_then: bool
) -> None:
    """A take-over drops it and its ledger is deleted, before its reader has opened it, or has heard that it ended."""

    async with await log.writer() as writer:
        await writer.append(b"a")
    abandoned = await log.writer()
    await abandoned.abandon()
    empty = (await log.refresh()).last
    assert empty is not None and not empty.is_ended
    reading = log._reader._ledgers.calls
    open_ledger, other = reading.open_ledger, await client.log("orders")

    async def dropped(ledger_id: int) -> None:
        monkeypatch.undo()
        async with await other.writer() as writer:
            await writer.append(b"b")
        if not await gone(client, ledger_id):
            await delete(await client._connected(), ledger_id, b"")

    async def slow(ledger_id: int, **arguments: object) -> object:
        is_it = ledger_id == empty.ledger_id and not arguments.get("recovery")
        if is_it and not is_open_by_then:
            await dropped(ledger_id)
        opened = await open_ledger(ledger_id, **arguments)  # type: ignore[arg-type]
        if is_it and is_open_by_then:
            await dropped(ledger_id)
        return opened

    monkeypatch.setattr(reading, "open_ledger", slow)
    assert [record.payload async for record in log.tail(1, timeout=1)] == [b"b"]
    assert await log.end() == 2


@pytest.mark.parametrize("late", ["check", "recovery"])
async def test_a_take_over_whose_empty_segment_a_rival_drops_is_not_told_that_the_log_is_lost(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    log, other = await client.log("orders", create=True), await client.log("orders")
    await (await log.writer()).abandon()
    empty = (await log.refresh()).last
    assert empty is not None and not empty.is_ended

    async def dropped() -> None:
        monkeypatch.undo()
        async with await other.writer() as writer:
            await writer.append(b"a")
        if not await gone(client, empty.ledger_id):
            await delete(await client._connected(), empty.ledger_id, b"")

    async def checked_late(*arguments: Any) -> None:
        await dropped()
        await log_access.check_may_write(*arguments)

    async def recovered_late(self: LogSegmentLedgers, segment: Segment) -> Segment:
        await dropped()
        return await self.recover(segment)

    if late == "check":
        monkeypatch.setattr(takeover, "check_may_write", checked_late)
        async with await log.writer() as writer:
            assert await writer.append(b"b") == 1
    else:
        monkeypatch.setattr(LogSegmentLedgers, "recover", recovered_late)
        with pytest.raises(LogFenced):
            await log.writer()


async def gone(client: LedgerClient, ledger_id: int) -> bool:
    return await (await client._connected()).ledgers.read(ledger_id) is None
