"""L4: a client knows one end of a log, which never goes back, and all that takes a position judges by it.

That readers get what is confirmed and not given up, from the right segment: test_log_readers.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bookledger.errors import OutOfRange
from ledgers import NoSuchEntry, NoSuchPosition
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from tests.support.in_process import QUICK, InProcessCluster

NEVER = 3600.0


@pytest.fixture
async def silent(cluster: InProcessCluster) -> AsyncIterator[LedgerClient]:
    """A client that does not tell bookies what is confirmed while it is idle."""
    async with LedgerClient(cluster.uri, config=replace(QUICK, idle_lac_seconds=NEVER)) as client:
        yield client


async def positions(log: Log, start: int | None = None, stop: int | None = None) -> list[int]:
    return [record.position async for record in log.read(start, stop)]


async def test_L4_what_a_client_has_appended_is_there_for_all_its_handles_at_once(
    silent: LedgerClient,
) -> None:
    writer = await (await silent.log("orders", create=True)).writer()
    assert [await writer.append(b"a"), await writer.append(b"b")] == [0, 1]
    log = await silent.log("orders")
    assert await log.end() == 2
    assert await positions(log) == [0, 1]
    assert await positions(log, 0, 2) == [0, 1]
    assert [one.position async for one in log.tail(1, timeout=0)] == [1]
    assert (await log.lag(0)).records == 2
    async with await log.cursor("billing", start=2) as cursor:
        await cursor.seek(1)
        cursor.commit(2)
        await cursor.flush()
        assert cursor.position == 2
    await log.truncate(2)
    assert await log.first_position() == 2


async def test_L4_a_position_that_another_client_was_told_of_is_waited_for(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    writer = await (await client.log("orders", create=True)).writer()
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        log = await other.log("orders")
        end = await writer.append(b"a") + 1
        assert await positions(log, 0, end) == [0]
        end = await writer.append(b"b") + 1
        async with await log.cursor("billing", start=end) as cursor:
            cursor.commit(await writer.append(b"c") + 1)
            await cursor.flush()
            assert cursor.position == 3
        await log.truncate(await writer.append(b"d") + 1)
        assert await log.end() == 4


async def test_L4_an_end_is_seen_no_later_than_a_record_that_was_given(silent: LedgerClient) -> None:
    """`end` asks other bookies than `tail` did, which may not know it yet."""
    async with await (await silent.log("orders", create=True)).writer() as writer:
        await writer.append_batch([b"a", b"b"])
        log = await silent.log("orders")
        async for record in log.tail():
            assert await log.end() > record.position
            if record.position == 1:
                break


async def test_L4_a_record_that_was_given_is_before_the_end_though_no_bookie_answers(
    cluster: InProcessCluster, client: LedgerClient, silent: LedgerClient
) -> None:
    writer = await (await client.log("orders", create=True)).writer()
    log = await silent.log("orders")
    cursor = await log.cursor("billing", start=0)
    given = asyncio.create_task(anext(log.tail(0)))
    await asyncio.sleep(0)
    await writer.append(b"a")
    position = (await given).position
    for bookie in list(cluster.stacks):
        await cluster.stop(bookie)
    cursor.commit(position + 1)
    await cursor.flush()
    assert cursor.position == 1


async def test_L4_a_tail_beyond_the_end_is_refused_and_one_at_the_end_waits(client: LedgerClient) -> None:
    """L4: else a reader that stood in a log of this name, which was deleted since, would skip what the new one gets."""
    log = await client.create_log("orders")
    async with await log.writer() as writer:
        await writer.append_batch([b"%d" % n for n in range(20)])
    await client.delete_log("orders")
    log = await client.create_log("orders")
    for reading in anext(log.tail(20)), log.poll(20, timeout=NEVER):
        with pytest.raises(NoSuchPosition, match="ends before position 0, so position 20 is beyond its end"):
            await reading
    async with await log.writer() as writer:
        for position in range(2):
            waiting = asyncio.create_task(log.poll(position, timeout=30))
            await asyncio.sleep(0)
            await writer.append(b"x")
            assert [record.position for record in await waiting] == [position]


async def test_a_cursor_waits_where_it_was_committed_though_bookies_do_not_know_it_yet(
    cluster: InProcessCluster, silent: LedgerClient
) -> None:
    writer = await (await silent.log("orders", create=True)).writer()
    await writer.append_batch([b"a", b"b"])
    await (await (await silent.log("orders")).cursor("billing", start=2)).close()
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        log = await other.log("orders")
        with pytest.raises(NoSuchPosition):
            await anext(log.tail(2))
        assert [record.position async for record in log.consume("billing", timeout=0)] == []
    await writer.close()


async def test_a_refused_commit_is_one_error_and_keeps_no_other_from_being_written(
    client: LedgerClient,
) -> None:
    log = await client.create_log("orders")
    async with await log.writer() as writer:
        await writer.append_batch([b"%d" % n for n in range(10)])
    async with await log.cursor("billing", commit_seconds=NEVER) as cursor:
        cursor.commit(999)
        cursor.commit(5)
        with pytest.raises(
            NoSuchPosition, match="ends before position 10, so position 999 is beyond its end"
        ):
            await cursor.flush()
        assert cursor.position == 5
        cursor.commit(7)
        await cursor.flush()
        assert cursor.position == 7


async def test_a_commit_that_is_refused_in_the_background_is_told_once(client: LedgerClient) -> None:
    log = await client.create_log("orders")
    async with await log.writer() as writer:
        await writer.append_batch([b"%d" % n for n in range(10)])
    cursor = await log.cursor("billing", commit_seconds=0)
    cursor.commit(11)
    assert cursor._writing is not None
    await cursor._writing
    cursor.commit(6)
    assert cursor._writing is not None
    await cursor._writing
    assert cursor.position == 6
    with pytest.raises(NoSuchPosition, match="so position 11 is"):
        await cursor.flush()
    await cursor.close()


async def test_beyond_the_end_of_a_log_and_of_a_ledger_is_one_kind_of_error(client: LedgerClient) -> None:
    log = await client.create_log("orders")
    async with await log.writer() as writer:
        await writer.append(b"a")
    async with await client.create_ledger() as ledger:
        await ledger.append(b"a")
    reader = await client.open_ledger(ledger.ledger_id)
    for first, of_log in [
        (7, "ends before position 1, so position 7 is beyond"),
        (-1, "positions begin at 0: log"),
    ]:
        with pytest.raises(OutOfRange, match=of_log) as told:
            await positions(log, first)
        assert isinstance(told.value, NoSuchPosition)
        with pytest.raises(OutOfRange, match=f"has no readable entry {first}") as told:
            await reader.read_entry(first)
        assert isinstance(told.value, NoSuchEntry)
    with pytest.raises(NoSuchPosition):
        await log.truncate(-1)
    with pytest.raises(NoSuchPosition):
        await anext(log.tail(-1, timeout=0))


async def test_where_a_loss_was_accepted_the_end_is_the_one_that_is_left(silent: LedgerClient) -> None:
    log = await silent.create_log("orders")
    async with await log.writer() as writer:
        await writer.append_batch([b"a", b"b"])
    log._known.advance_to(9)
    with pytest.raises(NoSuchPosition, match="ends before position 2, so position 9 is beyond"):
        await positions(log)
    assert await log.end() == 2
