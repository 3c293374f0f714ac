"""Opening a ledger with recovery on real bookies: fencing, racing, undecided, other disks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import EntryUnreadable, LedgerFenced, LedgerRecoveryFailed, LedgerState
from ledgers.aio import LedgerClient
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads


async def test_recovery_keeps_what_was_confirmed_and_fences_the_writer(tmp_path: Path) -> None:
    # An idle writer that tells its last-add-confirmed would learn of the fence before it appends.
    async with on_bookies(tmp_path, 3, replace(QUICK, idle_lac_seconds=60)) as (_, client):
        writer = await client.create_ledger(ack_quorum=3)  # nothing is under way when it is fenced
        for n in range(10):
            await writer.append(b"%d" % n)
        reader = await client.open_ledger(writer.ledger_id)
        assert reader.record.state is LedgerState.CLOSED
        assert await payloads(reader) == [b"%d" % n for n in range(10)]
        with pytest.raises(LedgerFenced) as fenced:
            await writer.append(b"late")
        assert fenced.value.first_unconfirmed == 10
        assert "the first unconfirmed entry is 10" in str(fenced.value)
        for ended in (writer.flush, writer.close):
            with pytest.raises(LedgerFenced):
                await ended()


async def test_a_writer_whose_ledger_was_recovered_at_its_own_end_closes_well(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger()
        await writer.append(b"all there is")
        await client.open_ledger(writer.ledger_id)
        await writer.close()


async def test_recoverers_that_race_agree_on_one_end(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger()
        futures = [await writer.append_async(b"x" * 100) for _ in range(500)]
        async with LedgerClient(cluster.uri) as other:
            readers = await asyncio.gather(
                *(c.open_ledger(writer.ledger_id) for c in (client, other, client, other))
            )
        ends = {reader.last_add_confirmed for reader in readers}
        assert len(ends) == 1
        confirmed = [f.result() for f in futures if f.done() and f.exception() is None]
        assert not confirmed or confirmed[-1] <= ends.pop()
        await writer.abandon()


async def replaced_by_empty_ones(cluster: InProcessCluster, *names: str) -> None:
    """These bookies lose their disks, and empty ones begin under their names, at their addresses."""
    for name in names:
        await cluster.stop(name)
        (cluster.path / name).rename(cluster.path / f"{name}-old")
        cookie = await cluster.store.get(f"cookies/{name}")
        assert cookie is not None
        await cluster.store.delete(f"cookies/{name}", cookie.version)
        await cluster.start(name)


async def test_a_writer_whose_bookies_were_replaced_by_empty_ones_goes_on_with_them_by_name_of_incarnation(
    tmp_path: Path,
) -> None:
    """F15: the metadata names the new ones from the next entry on, and nobody takes them for those before."""
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        await writer.append(b"lost with both its disks")
        former = writer.record.fragments[0].ensemble
        await replaced_by_empty_ones(cluster, "b1", "b2")
        assert await writer.append(b"on the new disks") == 1
        last = writer.record.fragments[-1]
        assert last.first_entry == 1
        assert not set(last.ensemble) & set(former)
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert (await reader.read_entry(1)).payload == b"on the new disks"
        with pytest.raises(EntryUnreadable, match="another incarnation"):
            await reader.read_entry(0)


async def test_an_empty_disk_under_an_old_name_is_never_taken_for_the_old_bookie(tmp_path: Path) -> None:
    """F15: bookies replaced by empty ones at the same address say nothing of what the old ones had."""
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        await writer.append(b"kept")
        await writer.abandon()
        await replaced_by_empty_ones(cluster, "b1", "b2")
        with pytest.raises(LedgerRecoveryFailed, match="another incarnation"):
            await client.open_ledger(writer.ledger_id)
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.IN_RECOVERY


async def test_recovery_that_cannot_decide_fails_and_succeeds_when_the_bookies_are_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger()
        for n in range(5):
            await writer.append(b"%d" % n)
        await writer.abandon()
        await cluster.stop("b1")
        await cluster.stop("b2")
        with pytest.raises(LedgerRecoveryFailed, match="b1"):
            await client.open_ledger(writer.ledger_id)
        await cluster.start("b1")
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(5)]
