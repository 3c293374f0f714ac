"""L13: forks share ledgers, and none is deleted that a log or a fork needs, on real bookies.

What a log's record says of its forks: metadata/test_log_sharing.py; all that may happen at any moment: the layer `logs`
of the simulator. Metadata that is rebuilt or went back: bookledger/rebuilding/test_logs.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from bookledger.errors import (
    LedgerInLog,
    LogExists,
    LogFenced,
    LogIncomplete,
    LogTruncated,
    NoSuchLog,
    NoSuchPosition,
)
from ledgers.aio import LedgerClient
from ledgers.logs.forks import forking
from ledgers.logs.log import Log
from metadata.errors import StoreUnavailable
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from tests.support.aio import until_true
from tests.support.in_process import InProcessCluster
from tests.support.numbered_logs import fill, numbers


async def ledger_ids(client: LedgerClient) -> set[int]:
    return {one.ledger_id async for one in client.list_ledgers()}


async def ids_of(log: Log) -> list[int]:
    return [one.ledger_id async for one in log.segments()]


@pytest.fixture
async def orders(client: LedgerClient) -> Log:
    """Positions 0 to 24, in ledgers of ten."""
    log = await client.create_log("orders", roll_records=10)
    await fill(log, *range(25))
    return log


async def test_L13_a_fork_has_the_records_before_a_position_and_each_log_goes_on_by_itself(
    client: LedgerClient, orders: Log
) -> None:
    before = await ledger_ids(client)
    fork = await orders.fork("test", at=14)
    assert await ledger_ids(client) == before, "nothing was copied"
    assert await numbers(fork) == list(range(14)) and await fork.end() == 14
    await fill(fork, 114, 115)
    await fill(orders, 25)
    for name, expected in (("test", [*range(14), 114, 115]), ("orders", [*range(26)])):
        log = await client.log(name)
        assert await numbers(log) == expected
        assert [position async for position in _positions(log)] == list(range(len(expected)))
    assert await numbers(fork, 13) == [13, 114, 115]


async def _positions(log: Log):  # type: ignore[no-untyped-def]
    async for record in log.read():
        yield record.position


@pytest.mark.parametrize("first", ["orders", "test"])
async def test_L13_a_ledger_goes_when_the_last_log_has_given_it_up(
    client: LedgerClient, orders: Log, first: str
) -> None:
    fork = await orders.fork("test", at=14)
    shared = (await ids_of(orders))[:2]
    one, other = (orders, fork) if first == "orders" else (fork, orders)
    await one.truncate(14 if one is fork else 20)
    await until_true(lambda: _is_clean(client, one))
    assert set(shared) <= await ledger_ids(client)
    assert await numbers(other) == list(range(14 if other is fork else 25))
    await other.truncate(10)
    await until_true(lambda: _are_gone(client, shared[:1]))
    assert shared[1] in await ledger_ids(client)
    await other.truncate(14 if other is fork else 20)
    await until_true(lambda: _are_gone(client, shared))


async def _is_clean(client: LedgerClient, log: Log) -> bool:
    return not (await log.refresh()).obsolete


async def _are_gone(client: LedgerClient, gone: Sequence[int]) -> bool:
    return not (set(gone) & await ledger_ids(client))


@pytest.mark.parametrize("first", ["orders", "test"])
async def test_L13_a_deleted_log_leaves_what_others_need_and_the_last_one_leaves_nothing(
    cluster: InProcessCluster, client: LedgerClient, orders: Log, first: str
) -> None:
    fork = await orders.fork("test", at=14)
    await fill(fork, 114)
    await client.delete_log(first)
    left = fork if first == "orders" else orders
    assert await numbers(left) == ([*range(14), 114] if left is fork else [*range(25)])
    with pytest.raises(NoSuchLog):
        await client.log(first)
    again = await client.create_log(first)
    assert await numbers(again) == []
    await client.delete_log(first)
    await client.delete_log(left.name)
    assert await ledger_ids(client) == set()
    assert [one async for one in LogStore(cluster.store).records()] == []


async def test_L13_what_a_deleted_log_had_behind_its_forks_goes_with_it(
    client: LedgerClient, orders: Log
) -> None:
    ids = await ids_of(orders)
    await orders.fork("test", at=10)
    await client.delete_log("orders")
    assert await ledger_ids(client) == {ids[0]}


async def test_L13_a_fork_of_a_fork_keeps_what_it_shares_whoever_goes(
    client: LedgerClient, orders: Log
) -> None:
    fork = await orders.fork("test", at=14)
    await fill(fork, *range(114, 120))
    third = await fork.fork("third", at=17)
    low = await fork.fork("low", at=5)
    for name in ("orders", "test"):
        await client.delete_log(name)
    assert await numbers(third) == [*range(14), 114, 115, 116]
    assert await numbers(low) == [*range(5)]
    assert [(one.log, one.start, one.stop) for one in (await third.sharing()).logs] == []
    await fill(third, 217)
    await client.delete_log("low")
    assert await numbers(third) == [*range(14), 114, 115, 116, 217]
    await client.delete_log("third")
    assert await ledger_ids(client) == set()


async def test_L13_the_part_of_an_open_segment_that_is_confirmed_is_shared_while_its_writer_goes_on(
    client: LedgerClient,
) -> None:
    log = await client.create_log("orders")
    writer = await log.writer()
    for n in range(7):
        await writer.append(b"%d" % n)
    fork = await log.fork("test", at=5)
    assert await numbers(fork) == [0, 1, 2, 3, 4]
    await fill(fork, 105)
    for n in range(7, 12):
        await writer.append(b"%d" % n)
    assert await numbers(fork) == [0, 1, 2, 3, 4, 105]
    await fill(log, 12)
    with pytest.raises(LogFenced):
        await writer.append(b"late")
    assert await numbers(log) == list(range(13))
    tailed = [int(record.payload) async for record in fork.tail(0, timeout=0)]
    assert tailed == [0, 1, 2, 3, 4, 105]


async def test_L13_a_fork_that_is_held_keeps_its_records(client: LedgerClient, orders: Log) -> None:
    fork = await orders.fork("test", at=14)
    await fork.set_legal_hold(True)
    await client.delete_log("orders")
    assert await numbers(fork) == list(range(14))


async def test_L13_no_ledger_that_a_fork_needs_is_deleted_by_hand(client: LedgerClient, orders: Log) -> None:
    ids = await ids_of(orders)
    await orders.fork("test", at=14)
    await client.delete_log("orders")
    with pytest.raises(LedgerInLog):
        await client.delete_ledger(ids[0])


async def test_a_fork_begins_where_its_log_does_and_ends_at_a_time_or_a_position_that_there_is(
    client: LedgerClient, orders: Log
) -> None:
    await orders.truncate(12)
    times = [record.time async for record in orders.read()]
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[5])
    assert await numbers(await orders.fork("by-time", at=at)) == list(range(12, await orders.position_at(at)))
    assert await numbers(await orders.fork("whole")) == list(range(12, 25))
    assert await numbers(await orders.fork("none", at="beginning")) == []
    for at_position, error in ((11, LogTruncated), (26, NoSuchPosition)):
        with pytest.raises(error):
            await orders.fork("wrong", at=at_position)
    with pytest.raises(LogExists):
        await orders.fork("whole")
    with pytest.raises(NoSuchLog):
        await client.log("wrong")
    none = await client.log("none")
    await fill(none, 12)
    assert [record.position async for record in none.read()] == [12]


async def test_producers_come_along(client: LedgerClient) -> None:
    log = await client.create_log("orders", roll_records=5)
    async with await log.writer() as writer:
        for n in range(12):
            await writer.append(b"%d" % n, producer="till", sequence=n)
    for at in (3, 11, 12):
        fork = await log.fork(f"at-{at}", at=at)
        async with await fork.writer() as writer:
            assert writer.last_sequence("till") == at - 1
            assert await writer.append(b"again", producer="till", sequence=at - 1) == at - 1
            assert await writer.append(b"new", producer="till", sequence=at) == at


async def test_a_fork_of_many_segments_writes_fewer_records_than_there_are_pages(
    cluster: InProcessCluster, client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forking, "PAGE_SEGMENTS", 2)
    monkeypatch.setattr(forking, "FORK_PAGE_SEGMENTS", 4)
    log = await client.create_log("orders")
    for n in range(20):
        await fill(log, n)
    fork = await log.fork("test", at=18)
    assert len([page async for page in LogStore(cluster.store).pages(fork.record.identity)]) == 4
    assert await numbers(fork) == list(range(18))
    first = await anext(log.read())
    assert await fork.position_at(datetime.fromtimestamp(first.time / 1e6, UTC)) == 0
    await fork.truncate(9)
    assert await numbers(fork) == list(range(9, 18)) and await numbers(log) == list(range(20))
    await client.delete_log("orders")
    assert await numbers(fork) == list(range(9, 18))


async def test_a_fork_that_was_interrupted_can_only_be_deleted_and_keeps_nothing_then(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> None:
        raise StoreUnavailable("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(LogStore, "put_page", dies)
        patched.setattr("ledgers.logs.log_calls.delete_all", dies)
        patched.setattr(forking, "PAGE_SEGMENTS", 1)
        with pytest.raises(Exception, match="cut off"):
            await orders.fork("test")
    await client.delete_log("test")
    assert await ledger_ids(client) == set(await ids_of(orders))
    assert (await orders.refresh()).forks == ()
    assert await numbers(await orders.fork("test")) == list(range(25))


async def test_a_fork_that_is_deleted_before_its_log_knows_of_it_keeps_nothing(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = forking.Forking._register

    async def late(self: forking.Forking, record: LogRecord) -> None:
        await client.delete_log("test")
        await register(self, record)

    monkeypatch.setattr(forking.Forking, "_register", late)
    with pytest.raises(NoSuchLog):
        await orders.fork("test")
    assert (await orders.refresh()).forks == ()


async def test_nobody_opens_a_fork_before_it_is_complete(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    segments = LogStore.segments

    async def waits(self: LogStore, *arguments: object):  # type: ignore[no-untyped-def]
        begun.set()
        await go_on.wait()
        async for one in segments(self, *arguments):  # type: ignore[arg-type]
            yield one

    monkeypatch.setattr(LogStore, "segments", waits)
    making = asyncio.create_task(orders.fork("test"))
    await begun.wait()
    with pytest.raises(LogIncomplete, match="if no client is currently making it, delete it"):
        await client.log("test")
    go_on.set()
    assert (await making).name == "test"
    assert (await client.log("test")).record.end_position == 25
