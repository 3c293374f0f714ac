"""Ledger ids chosen by the caller, on real bookies: given once, for ever (F20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.upkeep.inventory import unknown_ids
from bookie.upkeep.inventory.unknown_ids import give_no_id_twice
from ledgers import LedgerExists, NoSuchLedger
from ledgers.aio import LedgerClient
from metadata.healing import collection_progress
from metadata.records.ledger_ids import count_beyond, counted_end
from metadata.records.ledger_store import LedgerStore
from tests.support.in_process import InProcessCluster, on_bookies, payloads


@pytest.mark.parametrize("chosen", [42, None])
async def test_an_id_that_was_deleted_is_not_given_again_whoever_chose_it(
    client: LedgerClient, chosen: int | None
) -> None:
    """The bookies still hold the old ledger's entries, and readers of a new one would be shown them."""
    async with await client.create_ledger(ledger_id=chosen) as writer:
        await writer.append(b"old")
    ledger_id = writer.ledger_id
    await client.delete_ledger(ledger_id)
    for recovery in (True, False):
        with pytest.raises(NoSuchLedger):
            await client.open_ledger(ledger_id, recovery=recovery)
    with pytest.raises(NoSuchLedger):
        await client.delete_ledger(ledger_id)
    with pytest.raises(LedgerExists, match="ids are never reused"):
        await client.create_ledger(ledger_id=ledger_id)
    assert [record async for record in client.list_ledgers()] == []


async def test_a_chosen_id_of_which_no_tombstone_is_left_is_not_given_again_either(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    for ledger_id in (5, 9):
        await (await client.create_ledger(ledger_id=ledger_id)).close()
    await client.delete_ledger(9)
    (tombstone,) = [one async for one in LedgerStore(cluster.store).look_up([9])]
    await collection_progress.retire(cluster.store, {9: tombstone.version})
    for chosen in (9, 7):
        with pytest.raises(LedgerExists, match="ids are never reused"):
            await client.create_ledger(ledger_id=chosen)
    await (await client.create_ledger(ledger_id=10)).close()
    assert [record.ledger_id async for record in client.list_ledgers()] == [5, 10]


async def test_the_counter_steps_over_chosen_ids_also_deleted_ones(client: LedgerClient) -> None:
    first = await client.create_ledger()
    await first.close()
    kept, deleted = first.ledger_id + 1, first.ledger_id + 2
    for ledger_id in (kept, deleted):
        await (await client.create_ledger(ledger_id=ledger_id)).close()
    await client.delete_ledger(deleted)
    async with await client.create_ledger() as writer:
        await writer.append(b"new")
    assert writer.ledger_id == first.ledger_id + 3
    assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"new"]


async def test_a_writer_whose_ledger_was_deleted_by_force_ends_when_it_has_to_change_or_close_it(
    tmp_path: Path,
) -> None:
    """F20: until then it cannot know; what it appended is gone with the ledger."""
    async with on_bookies(tmp_path, 4) as (cluster, client):
        closing, changing = await client.create_ledger(), await client.create_ledger()
        for writer in (closing, changing):
            await writer.append(b"a")
            await client.delete_ledger(writer.ledger_id, force=True)
        with pytest.raises(NoSuchLedger):
            await closing.close()
        await cluster.stop(changing.record.fragments[0].ensemble[0].bookie_id)
        with pytest.raises(NoSuchLedger):
            while True:
                await changing.append(b"b")


async def test_the_counter_is_raised_for_ids_that_it_could_still_give_and_never_goes_back(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    chosen = await client.create_ledger(ledger_id=100)
    await chosen.close()
    await client.create_ledger(ledger_id=50)
    end = await counted_end(cluster.store)
    await give_no_id_twice(cluster.store, "b1", [50, 100, 2**62])
    assert await counted_end(cluster.store) == end, "all that could be given are known"
    await give_no_id_twice(cluster.store, "b1", [50, 70, 100, 2**62])
    assert await counted_end(cluster.store) == 71
    await count_beyond(cluster.store, 5)
    assert await counted_end(cluster.store) == 71


async def test_whether_many_ids_were_heard_of_is_told_by_a_listing_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that applications chose lie beyond the counter, and there may be a million of them."""
    monkeypatch.setattr(unknown_ids, "ASKED_MAX", 2)
    async with on_bookies(tmp_path, 3) as (cluster, client):
        for ledger_id in (40, 50, 60, 70, 80, 90, 100):
            await (await client.create_ledger(ledger_id=ledger_id)).close()
        before = await counted_end(cluster.store)
        for held in ([], [50], [40, 60, 70, 90, 100], [50, 60, 70, 80, 90, 100]):
            await give_no_id_twice(cluster.store, "b1", held)
            assert await counted_end(cluster.store) == before, "all of them are known"
        for held, end in (
            ([30, 50, 60, 100], 31),
            ([41, 43, 50, 100], 44),
            ([50, 61, 62, 80, 90], 63),
            ([50, 89, 90, 100], 90),
            ([50, 60, 100, 101, 102], 103),
        ):
            await give_no_id_twice(cluster.store, "b1", held)
            assert await counted_end(cluster.store) == end
