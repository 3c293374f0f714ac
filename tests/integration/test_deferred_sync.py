"""Deferred sync on real bookies: what an append promises, what force promises, and what is kept meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import LedgerFenced, NewLedger
from ledgers.aio import LedgerClient
from ledgers.config import MIB
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads


def syncs(cluster: InProcessCluster) -> int:
    return sum(running.bookie.syncs for running in cluster.running.values())


async def test_appends_are_answered_before_they_are_confirmed_and_force_confirms_them(
    client: LedgerClient,
) -> None:
    writer = await client.create_ledger(deferred_sync=True)
    assert [await writer.append(b"%d" % n) for n in range(10)] == list(range(10))
    assert writer.last_add_confirmed == -1
    await writer.force()
    assert writer.last_add_confirmed == 9
    await writer.close()
    assert (await client.describe_ledger(writer.ledger_id)).last_entry == 9


async def test_appends_cost_no_sync_of_their_own(cluster: InProcessCluster, client: LedgerClient) -> None:
    writer = await client.create_ledger(deferred_sync=True)
    before = syncs(cluster)
    for n in range(100):
        await writer.append(b"%d" % n)
    assert syncs(cluster) - before < 30, "three bookies sync once a second at most, not for each append"
    await writer.force()
    await writer.close()


async def test_force_of_an_ordinary_ledger_is_a_flush(client: LedgerClient) -> None:
    async with await client.create_ledger() as writer:
        future = await writer.append_async(b"a")
        await writer.force()
        assert (future.done(), writer.last_add_confirmed) == (True, 0)
        await writer.force()


async def test_readers_see_what_was_forced_and_no_more(client: LedgerClient) -> None:
    writer = await client.create_ledger(deferred_sync=True)
    await writer.append(b"a")
    await writer.force()
    await writer.append(b"b")
    reader = await client.open_ledger(writer.ledger_id, recovery=False)
    while reader.last_add_confirmed < 0:  # the idle writer tells it within a moment
        await reader.read_last_add_confirmed()
    assert await payloads(reader) == [b"a"]
    await writer.close()  # which forces first
    assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"a", b"b"]


async def test_a_bookie_is_replaced_with_all_that_is_not_on_disk_sent_again(tmp_path: Path) -> None:
    """F8"""
    async with on_bookies(tmp_path, 4) as (cluster, client):
        writer = await client.create_ledger(deferred_sync=True)
        for n in range(20):
            await writer.append(b"%d" % n)
        await cluster.stop(writer.record.fragments[0].ensemble[0].bookie_id)
        await writer.append(b"20")
        await writer.force()
        assert writer.last_add_confirmed == 20
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(21)]
        assert len(reader.record.fragments[-1].ensemble) == 3


async def test_what_waits_for_a_force_is_bounded_and_forced_by_itself(tmp_path: Path) -> None:
    """A writer that never forces keeps no more than its bound, and never stands still."""
    async with on_bookies(tmp_path, 3, replace(QUICK, pending_bytes_max=2 * MIB)) as (_, client):
        writer = await client.create_ledger(deferred_sync=True)
        for _n in range(40):
            await writer.append(bytes(256 * 1024))
            assert writer.pending_bytes <= 2 * MIB
        assert writer.last_add_confirmed > 0
        await writer.close()


async def test_a_recovery_ends_a_writer_that_waits_for_a_force(client: LedgerClient) -> None:
    writer = await client.create_ledger(deferred_sync=True)
    await writer.append(b"a")
    await client.open_ledger(writer.ledger_id)
    with pytest.raises(LedgerFenced):
        await writer.append(b"b")
    with pytest.raises(LedgerFenced):
        await writer.force()


async def test_many_may_force_at_once(client: LedgerClient) -> None:
    async with await client.create_ledger(deferred_sync=True) as writer:

        async def one(n: int) -> None:
            entry_id = await writer.append(b"%d" % n)
            await writer.force()
            assert writer.last_add_confirmed >= entry_id

        await asyncio.gather(*(one(n) for n in range(50)))


async def test_a_cancelled_force_harms_nobody(client: LedgerClient) -> None:
    async with await client.create_ledger(deferred_sync=True) as writer:
        await writer.append(b"a")
        forcing = asyncio.create_task(writer.force())
        await asyncio.sleep(0)
        forcing.cancel()
        await asyncio.wait([forcing])
        await writer.append(b"b")
        await writer.force()
        assert writer.last_add_confirmed == 1


async def test_advanced_appends_may_be_deferred_too(client: LedgerClient) -> None:
    writer = await client.create_ledger_adv(NewLedger(deferred_sync=True))
    late = await writer.append_async(1, b"b")
    assert await writer.append(0, b"a") == 0
    assert await late == 1
    assert writer.last_add_confirmed == -1
    await writer.force()
    assert writer.last_add_confirmed == 1
    await writer.close()
