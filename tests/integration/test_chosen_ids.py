"""Ledger ids chosen by the caller, on real bookies: given once, for ever (F20)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bookie.upkeep.inventory import unknown_ids
from bookie.upkeep.inventory.unknown_ids import give_no_id_twice
from ledgers import LedgerError, LedgerExists, NoSuchLedger
from metadata.backup import hold
from metadata.records.ledger_ids import count_beyond, counted_end
from tests.support.in_process import on_bookies, payloads


@pytest.mark.parametrize("chosen", [42, None])
async def test_an_id_that_was_deleted_is_not_given_again_whoever_chose_it(
    tmp_path: Path, chosen: int | None
) -> None:
    """The bookies still hold the old ledger's entries, and readers of a new one would be shown them."""
    async with on_bookies(tmp_path, 3) as (_, client):
        async with await client.create_ledger(ledger_id=chosen) as writer:
            await writer.append(b"old")
        ledger_id = writer.ledger_id
        await client.delete_ledger(ledger_id)
        for recovery in (True, False):
            with pytest.raises(NoSuchLedger):
                await client.open_ledger(ledger_id, recovery=recovery)
        with pytest.raises(NoSuchLedger):
            await client.delete_ledger(ledger_id)
        with pytest.raises(LedgerExists, match="an id is never given twice"):
            await client.create_ledger(ledger_id=ledger_id)
        assert [record async for record in client.list_ledgers()] == []


async def test_the_counter_steps_over_chosen_ids_also_deleted_ones(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
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


async def test_an_older_copy_of_the_metadata_gives_no_id_twice(tmp_path: Path) -> None:
    """A ledger made since the backup is lost to clients; its entries never turn up in another one."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        await (await client.create_ledger()).close()
        _copy(tmp_path / "metadata.db", tmp_path / "backup.db")
        async with await client.create_ledger() as lost:
            for _ in range(20):
                await lost.append(b"since the backup")
        for name in list(cluster.running):
            await cluster.stop(name)
        _copy(tmp_path / "backup.db", tmp_path / "metadata.db")
        for name in list(cluster.running):
            await cluster.start(name)
        with pytest.raises(LedgerError, match="bookledger metadata check"):
            await client.create_ledger()
        assert await hold.accept(cluster.store)
        writer = await client.create_ledger()
        assert writer.ledger_id == lost.ledger_id + 1
        await writer.append(b"new")
        await writer.abandon()
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"new"]
        with pytest.raises(NoSuchLedger):
            await client.open_ledger(lost.ledger_id)


def _copy(source: Path, target: Path) -> None:
    """As `.backup` and `.restore` of sqlite3 do."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


async def test_the_counter_is_raised_for_ids_that_it_could_still_give_and_never_goes_back(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
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
