"""Ids for new ledgers: taken a block at a time, rising, never given twice, by whomever."""

from __future__ import annotations

import asyncio

import pytest

from ledgers.creating import id_block
from ledgers.creating.id_block import BLOCK_IDS_MAX, IdBlock
from metadata import keys
from metadata.counting.counting_store import DONE, CountingStore
from metadata.errors import MetadataRestored
from metadata.memory_store import MemoryStore
from metadata.records import ledger_ids
from tests.support.faulty_store import FaultyStore


async def test_ids_rise_and_the_counter_is_asked_less_and_less_often() -> None:
    store = FaultyStore()
    block = IdBlock(store)
    assert [await block.next() for _ in range(300)] == list(range(1, 301))
    assert store.calls["replace"] < 300 / BLOCK_IDS_MAX + 8


async def test_many_at_once_of_several_clients_are_given_no_id_twice() -> None:
    data = MemoryStore()
    blocks = [IdBlock(data) for _ in range(4)]
    given = await asyncio.gather(*(blocks[n % 4].next() for n in range(200)))
    assert len(set(given)) == 200
    for n in range(4):
        assert list(given[n::4]) == sorted(given[n::4])


async def test_a_block_takes_two_calls_of_the_store() -> None:
    """The same transaction that takes it looks for a hold."""
    store = CountingStore(MemoryStore())
    await IdBlock(store).next()
    await IdBlock(store).next()
    assert store.counts.calls() == {("get", DONE): 2, ("create", DONE): 1, ("replace", DONE): 1}


async def test_a_client_that_makes_one_ledger_leaves_no_gap() -> None:
    store = MemoryStore()
    assert [await IdBlock(store).next() for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_old_ids_are_skipped_and_the_next_block_is_small_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    block = IdBlock(store)
    for _ in range(4):
        await block.next()
    end = await ledger_ids.counted_end(store)
    monkeypatch.setattr(id_block, "BLOCK_SECONDS_MAX", -1.0)
    assert await block.next() == end
    assert await ledger_ids.counted_end(store) == end + 1


async def test_no_id_is_taken_while_nobody_has_accepted_a_backup() -> None:
    """Its counter may be older than what bookies hold: an id taken now would be used once it is accepted."""
    store = MemoryStore()
    barring = await store.create(keys.RESTORED, b"")
    block = IdBlock(store)
    with pytest.raises(MetadataRestored):
        await block.next()
    await ledger_ids.count_beyond(store, 40)
    await store.delete(keys.RESTORED, barring)
    assert await block.next() == 41
