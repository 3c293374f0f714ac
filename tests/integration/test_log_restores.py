"""L14: a log is taken back by a fork that gets its name in one step, on real bookies.

Whatever else happens at any moment: the layer `logs` of the simulator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bookledger.errors import (
    LedgerError,
    LogExists,
    LogFenced,
    LogOfSet,
    LogRestored,
    LogTruncated,
    NoSuchLog,
    NoSuchPosition,
)
from ledgers import Retention
from ledgers.aio import LedgerClient
from ledgers.logs import log_calls
from ledgers.logs.forks.log_restoration import Restoring
from ledgers.logs.log import Log
from ledgers.logs.log_calls import LogCalls
from ledgers.logs.writing.log_writer import LogWriter
from metadata.errors import StoreUnavailable
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from tests.support.in_process import InProcessCluster
from tests.support.numbered_logs import fill, numbers


@pytest.fixture
async def orders(client: LedgerClient) -> Log:
    log = await client.create_log("orders", roll_records=10, retention=Retention(age_seconds=86_400.0))
    await fill(log, *range(25))
    return log


async def test_L14_the_log_has_what_it_had_and_the_former_one_has_everything(
    client: LedgerClient, orders: Log
) -> None:
    done = await orders.restore(at=14)
    assert (done.position, done.records_less) == (14, 11)
    restored, former = await client.log("orders"), await client.log(done.former)
    assert await numbers(restored) == list(range(14)) and await numbers(former) == list(range(25))
    assert await numbers(orders) == list(range(25)), "who has it open has the former log"
    await fill(restored, 114)
    assert await numbers(await client.log("orders")) == [*range(14), 114]
    assert [name async for name, _ in client.list_logs()] == sorted(["orders", done.former])
    assert (restored.retention, former.retention) == (Retention(age_seconds=86_400.0), Retention())
    await client.delete_log(done.former)
    assert await numbers(await client.log("orders")) == [*range(14), 114]
    await client.delete_log("orders")
    assert [one async for one in client.list_ledgers()] == []


async def test_L14_a_writer_is_fenced_before_the_step_and_nobody_writes_to_the_former_log(
    client: LedgerClient, orders: Log
) -> None:
    writer = await orders.writer()
    assert await writer.append(b"25") == 25
    done = await (await client.log("orders")).restore(at=20)
    with pytest.raises(LogFenced):
        await writer.append(b"26")
    for log in (orders, await client.log(done.former)):
        with pytest.raises(LogRestored, match="open 'orders' again"):
            await log.writer()
        with pytest.raises(LogRestored):
            await log.restore(at=3)
    assert await numbers(orders) == list(range(26)), "what it confirmed is there"
    assert await numbers(await client.log("orders")) == list(range(20))


async def test_L14_what_is_confirmed_until_the_step_is_in_the_former_log(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer comes between the fence and the step: it is fenced, too, before the name goes."""
    fenced, rival = Restoring._fenced, await client.log("orders")
    came: list[LogWriter] = []

    async def fenced_late(self: Restoring) -> int:
        epoch = await fenced(self)
        if not came:
            came.append(await rival.writer())
            assert await came[0].append(b"between") == 25
        return epoch

    monkeypatch.setattr(Restoring, "_fenced", fenced_late)
    done = await orders.restore(at=10)
    with pytest.raises(LogFenced):
        await came[0].append(b"late")
    former = await client.log(done.former)
    assert [record.payload async for record in former.read(25)] == [b"between"]


async def test_L14_cursors_behind_the_position_are_set_to_it_and_readers_of_the_former_log_are_told(
    client: LedgerClient, orders: Log
) -> None:
    for name, position in (("behind", 20), ("before", 3)):
        async with await orders.cursor(name, start=position):
            pass
    tail = asyncio.create_task(_all_of(orders))
    consumer = orders.consume("behind")
    assert (await anext(consumer)).position == 20
    plan = await orders.restore(at=14, dry_run=True)
    assert plan.cursors == {"behind": 20} and plan.records_less == 11
    assert await numbers(await client.log("orders")) == list(range(25)), "nothing was done"
    await orders.restore(at=14)
    with pytest.raises(LogRestored):
        await tail
    with pytest.raises(LogRestored):
        async for _ in consumer:
            pass
    restored = await client.log("orders")
    assert {name: one.position async for name, one in restored.cursors()} == {"behind": 14, "before": 3}
    await fill(restored, 114)
    async for record in restored.consume("behind"):
        assert (record.position, record.payload) == (14, b"114")
        break


async def _all_of(log: Log) -> int:
    return len([record async for record in log.tail(0)])


async def test_L14_leaders_of_earlier_terms_do_not_write_to_the_restored_log(client: LedgerClient) -> None:
    log = await client.create_log("orders")
    async with client.election("writers").lead() as term:
        async with await log.writer(term=term) as writer:
            await writer.append(b"0")
        token = log.record.token
    await log.restore(at=0)
    restored = (await client.log("orders")).record
    assert (restored.election, restored.token) == ("writers", token)


async def test_a_log_that_is_held_is_held_afterwards(client: LedgerClient, orders: Log) -> None:
    await orders.set_legal_hold(True)
    done = await orders.restore(at=14)
    assert (await client.log("orders")).record.legal_hold and (
        await client.log(done.former)
    ).record.legal_hold


async def test_it_is_restored_again_and_again_and_renamed(client: LedgerClient, orders: Log) -> None:
    for n, at in enumerate((20, 15, 10)):
        await (await client.log("orders")).restore(at=at, former=f"former-{n}")
        assert await numbers(await client.log("orders")) == list(range(at))
    await client.rename_log("orders", "sales")
    with pytest.raises(NoSuchLog):
        await client.log("orders")
    again = await client.create_log("orders")
    assert await numbers(again) == [] and await numbers(await client.log("sales")) == list(range(10))
    for n in range(3):
        await client.delete_log(f"former-{n}")
    assert await numbers(await client.log("sales")) == list(range(10))


async def test_what_cannot_be_is_refused_and_the_writer_goes_on(client: LedgerClient, orders: Log) -> None:
    await orders.truncate(12)
    await client.create_log("taken")
    async with await orders.writer() as writer:
        for at, error in ((11, LogTruncated), (26, NoSuchPosition)):
            with pytest.raises(error):
                await orders.restore(at=at)
        with pytest.raises(LogExists):
            await orders.restore(at=14, former="taken")
        with pytest.raises(ValueError, match="name"):
            await orders.restore(at=14, former="a/b")
        assert await writer.append(b"25") == 25
    later = datetime.now(UTC) + timedelta(hours=1)
    assert (await orders.restore(at=later, dry_run=True)).records_less == 0
    await client.log_set("sales", 1)
    with pytest.raises(LogOfSet):
        await (await client.log("sales.0")).restore(at=0)


class CutOff:
    """A call of the store that fails once, before it has done anything."""

    def __init__(self, real: Callable[..., Awaitable[Any]], number: int) -> None:
        self._real = real
        self._left = number

    def bound(self) -> Callable[..., Awaitable[Any]]:
        async def call(*about: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                raise StoreUnavailable("cut off")
            return await self._real(*about, **more)

        return call


@pytest.mark.parametrize("step", ["change", "give_name", "create"])
async def test_L14_interrupted_at_any_step_the_name_leads_to_one_log_and_it_can_be_done_again(
    cluster: InProcessCluster, client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    for number in range(1, 12):
        log = await client.log("orders")
        before = await numbers(log)
        with monkeypatch.context() as patched:
            patched.setattr(LogStore, step, CutOff(getattr(LogStore, step), number).bound())
            with suppress(LedgerError):
                await log.restore(at=max(0, 20 - number), former=f"former-{number}")
        found = await numbers(await client.log("orders"))
        assert found in (before, before[: max(0, 20 - number)])
    await fill(await client.log("orders"), 500)
    assert (await numbers(await client.log("orders")))[-1] == 500
    named = [one.record async for one in LogStore(cluster.store).by_name()]
    assert len({record.name for record in named}) == len(named)


async def test_L14_the_name_stays_when_the_former_log_is_deleted_before_its_key_was_written(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LogStore, "give_name", CutOff(LogStore.give_name, 2).bound())
        with pytest.raises(LedgerError, match="cut off"):
            await orders.restore(at=14, former="former")
    assert await numbers(await client.log("orders")) == list(range(14))
    with pytest.raises(LogExists):
        await client.create_log("orders")
    await client.delete_log("former")
    assert await numbers(await client.log("orders")) == list(range(14))


async def _dies(*_: object) -> None:
    raise LedgerError("the program died")


@pytest.mark.parametrize("deletion", ["not begun", "half done"])
async def test_L14_what_a_dead_restoration_of_a_fork_has_left_is_deleted_by_the_next_one(
    client: LedgerClient, orders: Log, monkeypatch: pytest.MonkeyPatch, deletion: str
) -> None:
    """It shares with the first log only, whose record names it."""
    fork = await orders.fork("fork", at=18)
    await fill(fork, 118)
    with monkeypatch.context() as patched:
        patched.setattr(Restoring, "succeed", _dies)
        where, call = (LogCalls, "_delete_fork") if deletion == "not begun" else (log_calls, "delete_all")
        patched.setattr(where, call, _dies)
        with pytest.raises(LedgerError, match="the program died"):
            await fork.restore(at=15, former="former")
    monkeypatch.setattr(log_calls, "STALE_MS", -1000)
    await fork.restore(at=16, former="former")
    for name in ("former", "fork", "orders"):
        await client.delete_log(name)
    assert [one async for one in client.list_ledgers()] == []


def test_the_former_log_keeps_everything() -> None:
    record = LogRecord(b"l" * 16, "orders", retention=Retention(bytes=1)).to_be_named("former")
    former = record.succeeded(b"f" * 16)
    assert (former.name, former.next_name, former.retention) == ("former", "", Retention())
    assert former.successor is not None and former.successor.name == "orders"
