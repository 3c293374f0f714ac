"""Deleting a ledger that is open: its writer confirms nothing more."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from ledgers import ClientConfig, LedgerFenced, LedgerRecoveryFailed, NoSuchLedger, Unauthorized
from ledgers.aio import LedgerClient, WriteHandle
from tests.support.aio import until_true
from tests.support.in_process import on_bookies

QUICK = ClientConfig(
    append_seconds_max=1, append_quorum_seconds_max=1, read_seconds_max=1, recovery_tries_max=1
)


async def append_for_ever(writer: WriteHandle, confirmed: list[int]) -> None:
    while True:
        confirmed.append(await writer.append(b"x"))


async def has_twenty(told: list[int]) -> bool:
    return len(told) >= 20


async def test_no_append_is_confirmed_after_its_ledger_was_deleted(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client), LedgerClient(cluster.uri) as another:
        writers = [await client.create_ledger() for _ in range(3)]
        confirmed: list[list[int]] = [[] for _ in writers]
        appending = [asyncio.create_task(append_for_ever(*of)) for of in zip(writers, confirmed, strict=True)]
        for writer, told, task in zip(writers, confirmed, appending, strict=True):
            await until_true(partial(has_twenty, told))
            await another.delete_ledger(writer.ledger_id)
            count = len(told)
            with pytest.raises((LedgerFenced, NoSuchLedger)):
                await task
            # What was on disk before it may be heard of later, and one append is under way at a time.
            assert len(told) <= count + 1
            with pytest.raises(NoSuchLedger):
                await another.open_ledger(writer.ledger_id)


async def test_nobody_deletes_an_open_ledger_with_a_password_without_it(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger(password=b"secret")
        await writer.append(b"one")
        with pytest.raises(Unauthorized):
            await client.delete_ledger(writer.ledger_id)
        assert await writer.append(b"two") == 1, "it is left in peace"
        await client.delete_ledger(writer.ledger_id, password=b"secret")
        with pytest.raises((LedgerFenced, NoSuchLedger)):
            await writer.append(b"three")


@pytest.mark.parametrize("wrong", [b"", b"guess"])
async def test_nobody_deletes_a_closed_ledger_with_a_password_without_it(
    tmp_path: Path, wrong: bytes
) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        async with await client.create_ledger(password=b"secret") as writer:
            await writer.append(b"one")
        with pytest.raises(Unauthorized):
            await client.delete_ledger(writer.ledger_id, password=wrong)
        assert (await client.describe_ledger(writer.ledger_id)).last_entry == 0
        await client.delete_ledger(writer.ledger_id, password=b"secret")


async def test_an_open_ledger_whose_bookies_are_away_is_deleted_by_force_only(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, QUICK) as (cluster, client):
        writer = await client.create_ledger()
        await writer.append(b"one")
        for name in ("b1", "b2", "b3"):
            await cluster.stop(name)
        with pytest.raises(LedgerRecoveryFailed):
            await client.delete_ledger(writer.ledger_id)
        assert not (await client.describe_ledger(writer.ledger_id)).is_closed
        await client.delete_ledger(writer.ledger_id, force=True)
        with pytest.raises(NoSuchLedger):
            await client.describe_ledger(writer.ledger_id)
