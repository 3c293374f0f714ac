"""A set owns its logs: it takes no other's, keeps them alike, and changes them together."""

from __future__ import annotations

import asyncio

import pytest

from bookledger.errors import LogExists, LogFenced, LogOfSet, NoSuchLog, NoSuchLogSet
from ledgers import Retention
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.log_calls import LogCalls
from ledgers.logs.sets.log_set import LogSet
from metadata.records.logs.log_record import LogRecord, SetMember

from .test_log_sets import fill, left

WEEK = Retention(age_seconds=7 * 86_400)


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_set_takes_no_log_that_is_not_its_own(client: LedgerClient, taken: int) -> None:
    async with await (await client.create_log(f"audit.{taken}")).writer() as writer:
        await writer.append(b"precious")
    before = await left(client)
    with pytest.raises(LogExists, match=rf"'audit\.{taken}'"):
        await client.log_set("audit", 2)
    assert await left(client) == before
    with pytest.raises(NoSuchLogSet):
        await client.delete_log_set("audit")


async def test_a_set_does_not_grow_over_a_log_that_is_not_its_own(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 2)
    writer = await log_set.writer()
    await client.create_log("orders.3")
    with pytest.raises(LogExists, match=r"'orders\.3'"):
        await log_set.grow(4)
    assert not (await log_set.refresh()).growing_to
    await writer.append(b"goes on", key=b"k")
    await client.delete_log_set("orders")
    assert [name async for name, _ in client.list_logs()] == ["orders.3"]


def _interrupted_at(number: int, patch: pytest.MonkeyPatch) -> None:
    settle = LogCalls.settle

    async def interrupted(self: LogCalls, model: LogRecord, member: SetMember, password: bytes) -> None:
        if member.number == number:
            raise InterruptedError
        await settle(self, model, member, password)

    patch.setattr(LogCalls, "settle", interrupted)


async def test_a_creation_that_was_interrupted_is_completed_by_whoever_opens_the_set(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        _interrupted_at(1, patch)
        await client.log_set("orders", 3, retention=WEEK)
    log_set = await client.log_set("orders")
    logs = [(await log_set.log(n)).record for n in range(3)]
    assert [log.retention for log in logs] == [WEEK] * 3
    assert [log.member for log in logs] == [log_set.record.member(n) for n in range(3)]
    assert not log_set.record.is_unsettled


async def test_all_logs_of_a_set_have_its_settings_also_those_that_come_later(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 2, roll_records=7)
    await log_set.set_retention(WEEK)
    await log_set.set_legal_hold(True)
    await log_set.grow(4)
    logs = [(await log_set.log(n)).record for n in range(4)]
    assert {(log.retention, log.legal_hold, log.settings.roll_records) for log in logs} == {(WEEK, True, 7)}
    await log_set.set_legal_hold(False)
    assert not any([(await log_set.log(n)).record.legal_hold for n in range(4)])


async def test_settings_that_were_interrupted_are_completed_by_the_next_writer(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set = await client.log_set("orders", 3)
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        _interrupted_at(1, patch)
        await log_set.set_retention(WEEK)
    assert [(await log_set.log(n)).retention for n in range(3)] == [WEEK, Retention(), Retention()]
    await (await log_set.writer()).close()
    assert [(await log_set.log(n)).retention for n in range(3)] == [WEEK] * 3


async def test_a_log_of_a_set_is_changed_with_the_set_only(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 2)
    await fill(log_set, 0, 2)
    log, before = await client.log("orders.1"), await left(client)
    for refused in (
        client.rename_log("orders.1", "elsewhere"),
        client.delete_log("orders.1"),
        log.set_retention(WEEK),
        log.set_legal_hold(True),
    ):
        with pytest.raises(LogOfSet, match=r"'orders\.1' belongs to set 'orders'"):
            await refused
    assert await left(client) == before
    await log.truncate(await log.end())
    assert await log.first_position() > 0


async def test_a_log_whose_set_is_gone_can_be_deleted(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_set = await client.log_set("orders", 2)
    found = (await log_set.log(1)).record
    await client.delete_log_set("orders")
    calls = await client._log_calls()
    assert found.member is not None
    await calls.settle(
        log_set.record.model, found.member, b""
    )  # by one that was about to when it was deleted
    with pytest.raises(LogExists):
        await client.log_set("orders", 2)
    await client.delete_log("orders.1")
    assert await left(client) == []


async def test_a_set_that_was_deleted_and_made_again_is_another_one(client: LedgerClient) -> None:
    old = await client.log_set("orders", 2)
    await client.delete_log_set("orders")
    await client.log_set("orders", 2)
    with pytest.raises(NoSuchLogSet):
        await old.refresh()
    with pytest.raises(NoSuchLog):
        await old.log(0)
    for refused in (old.writer(), old.grow(4), old.set_retention(WEEK)):
        with pytest.raises(NoSuchLogSet):
            await refused


async def test_a_set_refuses_a_leader_of_an_earlier_term(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 2)
    async with client.election("scheduler").lead() as early:
        old = await log_set.writer(term=early)
        token = early.token
    async with client.election("scheduler").lead() as late, await log_set.writer(term=late) as writer:
        await writer.append(b"led", key=b"k")
    logs = [(await log_set.log(n)).record for n in range(2)]
    assert [(log.election, log.token > token) for log in logs] == [("scheduler", True)] * 2
    with pytest.raises(LogFenced):
        await old.append(b"late", key=b"k")
    await old.abandon()


async def test_a_writer_that_takes_logs_over_while_the_set_grows_writes_to_all_logs(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the first log over only once the growth has fenced its writer, and looks at the set again."""
    log_set, other = await client.log_set("orders", 2), await client.log_set("orders")
    found = log_set.log

    async def log_after_growth(number: int) -> Log:
        monkeypatch.undo()
        await other.grow(4)
        return await found(number)

    monkeypatch.setattr(log_set, "log", log_after_growth)
    async with await log_set.writer() as writer:
        assert len(writer.writers) == 4


async def test_growths_that_race_each_other_and_writers_are_not_fenced(client: LedgerClient) -> None:
    log_set = await client.log_set("orders", 1)
    grown = asyncio.Event()

    async def writes() -> None:
        while not grown.is_set():
            try:
                await (await (await client.log_set("orders")).writer()).close()
            except LogFenced:
                pass

    async def grows(logs: int) -> None:
        await (await client.log_set("orders")).grow(logs)

    writing = [asyncio.create_task(writes()) for _ in range(2)]
    for logs in (2, 4, 8):
        await asyncio.gather(*(grows(logs) for _ in range(3)))
    grown.set()
    await asyncio.gather(*writing)
    assert (await log_set.refresh()).logs == 8
    assert isinstance(log_set, LogSet)
