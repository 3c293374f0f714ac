"""Following an open ledger on real bookies: how far it is confirmed, to its close, through whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from ledgers import ClientClosed, LedgerError, NoSuchEntry, NoSuchLedger
from ledgers.aio import LedgerClient, ReadHandle
from ledgers.config import ClientConfig
from tests.support.aio import cancel, take, until_true
from tests.support.processes import on_processes

CONFIG = ClientConfig(append_seconds_max=2, read_seconds_max=2, retry_replacement_seconds=0.1)


@pytest.fixture
async def client(uri: str) -> AsyncIterator[LedgerClient]:
    """Of bookies that live through all of the tests."""
    async with LedgerClient(uri, config=CONFIG) as client:
        yield client


async def polls_wait() -> bool:
    """Whether a reader has put its question to the bookies."""
    return any("_lac_of" in str(task.get_coro()) for task in asyncio.all_tasks())


class Follower:
    """Reads a ledger's tail in a task, and lets the test wait for what it has seen."""

    def __init__(self, reader: ReadHandle) -> None:
        self.seen: list[int] = []
        self._more = asyncio.Condition()
        self.task = asyncio.create_task(self._follow(reader))

    async def _follow(self, reader: ReadHandle) -> None:
        async for entry in reader.tail():
            assert entry.payload == b"%d" % entry.entry_id
            async with self._more:
                self.seen.append(entry.entry_id)
                self._more.notify_all()

    async def until_seen(self, count: int) -> None:
        async with self._more:
            await self._more.wait_for(lambda: len(self.seen) >= count)


async def test_a_tail_reader_follows_across_ensemble_changes_to_the_close(tmp_path: Path) -> None:
    async with on_processes(tmp_path, 4, CONFIG) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        follower = Follower(await client.open_ledger(writer.ledger_id, recovery=False))
        for n in range(300):
            await writer.append(b"%d" % n)
            if n in (100, 200):
                cluster.kill(writer.record.fragments[-1].ensemble[n % 2])
        await writer.close()
        await follower.task
        assert follower.seen == list(range(300))
        assert len(writer.record.fragments) == 3


async def test_a_tail_reader_goes_on_when_the_bookies_it_asked_come_back(tmp_path: Path) -> None:
    async with on_processes(tmp_path, 3, CONFIG) as (cluster, client):
        writer = await client.create_ledger()
        follower = Follower(await client.open_ledger(writer.ledger_id, recovery=False))
        for n in range(100):
            await writer.append(b"%d" % n)
        await follower.until_seen(90)
        for bookie in writer.record.fragments[0].ensemble:
            cluster.kill(bookie)
            await writer.append(b"%d" % (writer.last_add_confirmed + 1))
            await cluster.restart(bookie)
            for _ in range(50):
                await writer.append(b"%d" % (writer.last_add_confirmed + 1))
            await follower.until_seen(writer.last_add_confirmed)  # all but the entry that confirms the last
        await writer.close()
        await follower.task
        assert follower.seen == list(range(253))


async def test_a_ledger_deleted_under_its_tail_reader_is_no_such_ledger(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    follower = Follower(await client.open_ledger(writer.ledger_id, recovery=False))
    await writer.append(b"0")
    await follower.until_seen(1)
    await client.delete_ledger(writer.ledger_id, force=True)
    with pytest.raises(NoSuchLedger):
        await follower.task
    await writer.abandon()


async def test_a_client_closed_under_its_tail_reader_ends_it_with_an_error_and_no_cancellation(
    uri: str, client: LedgerClient
) -> None:
    writer = await client.create_ledger()
    other = LedgerClient(uri, config=CONFIG)
    follower = Follower(await other.open_ledger(writer.ledger_id, recovery=False))
    await writer.append(b"0")
    await follower.until_seen(1)
    await until_true(polls_wait)
    await other.close()
    with pytest.raises(ClientClosed, match="closed"):
        await follower.task
    await writer.close()


async def test_a_tail_reader_that_is_cancelled_leaves_nothing_running(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    await writer.append(b"0")
    await writer.close()
    other = await client.create_ledger()
    before = asyncio.all_tasks()
    follower = Follower(await client.open_ledger(other.ledger_id, recovery=False))
    await other.append(b"0")
    await follower.until_seen(1)
    await other.close()
    await cancel(follower.task)
    reading = {str(task.get_coro()) for task in asyncio.all_tasks() - before}
    assert not [name for name in reading if "view" in name.lower() or "lac" in name.lower()]


async def test_an_idle_writers_last_entry_reaches_a_waiting_reader_long_before_its_poll_ends(
    uri: str,
) -> None:
    """The explicit last-add-confirmed of the writer wakes the reader's long poll."""
    config = ClientConfig(long_poll_seconds=30, idle_lac_seconds=0.05)
    async with LedgerClient(uri, config=config) as client:
        writer = await client.create_ledger()
        follower = await client.open_ledger(writer.ledger_id, recovery=False)
        async with aclosing(follower.tail()) as entries:
            waiting = asyncio.create_task(take(1, entries))
            await until_true(polls_wait)
            await writer.append(b"0")
            async with asyncio.timeout(client._config.long_poll_seconds / 2):
                assert [entry.entry_id for entry in await waiting] == [0]
        await writer.close()


async def test_a_follower_without_recovery_never_disturbs_the_writer(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    for n in range(3):
        await writer.append(b"%d" % n)
    follower = await client.open_ledger(writer.ledger_id, recovery=False)
    while await follower.try_read_last_add_confirmed() < 2:
        pass  # the writer is idle: it tells the bookies by itself
    assert await follower.read_last_add_confirmed() == 2
    assert [entry.payload async for entry in follower.read()] == [b"0", b"1", b"2"]
    with pytest.raises(NoSuchEntry):
        await follower.read_entry(3)
    assert await writer.append(b"undisturbed") == 3
    await writer.close()


async def test_one_answer_is_enough_to_try_and_a_quorum_to_be_sure_how_far_a_ledger_is_confirmed(
    tmp_path: Path,
) -> None:
    async with on_processes(tmp_path, 3, CONFIG) as (cluster, client):
        writer = await client.create_ledger()
        first, second, third = writer.record.fragments[0].ensemble
        for n in range(10):
            await writer.append(b"%d" % n)
        follower = await client.open_ledger(writer.ledger_id, recovery=False)
        while await follower.read_last_add_confirmed() < 9:
            pass  # the idle writer has not told it yet
        await writer.abandon()
        cluster.pause(first)
        assert await follower.read_last_add_confirmed() == 9, "two of three leave no ack quorum outside"
        assert await follower.try_read_last_add_confirmed() == 9
        cluster.kill(second)
        assert await follower.try_read_last_add_confirmed() == 9
        with pytest.raises(LedgerError, match="too few bookies"):
            await follower.read_last_add_confirmed()
        cluster.kill(third)
        with pytest.raises(LedgerError, match="too few bookies"):
            await follower.try_read_last_add_confirmed()


# --- with an end in time ------------------------------------------------------------------------


async def test_a_tail_with_a_timeout_ends_once_nothing_new_came_for_so_long(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    for n in range(3):
        await writer.append(b"%d" % n)
    seen = [entry.entry_id async for entry in reader.tail(timeout=0.5)]
    assert seen in ([0, 1], [0, 1, 2]), "the writer need not have told of the last one"
    assert not reader.is_closed
    await writer.close()
    assert [entry.entry_id async for entry in reader.tail(len(seen), timeout=20)] == list(range(len(seen), 3))
    assert reader.is_closed


async def test_poll_returns_what_is_confirmed_as_soon_as_there_is_some(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    assert await reader.poll(0, timeout=0) == []
    waiting = asyncio.create_task(reader.poll(0, timeout=60))
    await until_true(polls_wait)
    for n in range(3):
        await writer.append(b"%d" % n)
    assert (await waiting)[0].entry_id == 0
    await writer.close()
    found = await reader.poll(1, timeout=0)
    assert [entry.payload for entry in found] == [b"1", b"2"], "it asks once, though it may not wait"
    assert len(await reader.poll(0, timeout=0, entries_max=1)) == 1
    assert reader.is_closed
    assert await reader.poll(3, timeout=60) == [], "at once: nothing will come"
    for following in (reader.poll(4, timeout=60), anext(aiter(reader.tail(4)))):
        with pytest.raises(NoSuchEntry):
            await following


async def test_a_poll_in_vain_takes_as_long_as_it_may(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    began = asyncio.get_running_loop().time()
    assert await reader.poll(0, timeout=0.4) == []
    assert 0.4 <= asyncio.get_running_loop().time() - began < 10
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="number of seconds, 0 or more"):
            await reader.poll(0, timeout=wrong)
    await writer.close()


async def test_a_poll_of_a_ledger_that_is_deleted_says_so(client: LedgerClient) -> None:
    writer = await client.create_ledger()
    readers = [await client.open_ledger(writer.ledger_id, recovery=False) for _ in range(2)]
    await writer.close()
    await client.delete_ledger(writer.ledger_id)
    for reader, timeout in zip(readers, (0.0, 20.0), strict=True):
        with pytest.raises(NoSuchLedger):
            await reader.poll(0, timeout=timeout)
