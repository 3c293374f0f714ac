"""Which tombstones no bookie needs any more, and what is left when they are gone."""

from __future__ import annotations

import pytest

from metadata import keys
from metadata.healing import collection_progress
from metadata.memory_store import MemoryStore
from metadata.records import ledger_ids
from metadata.records.cluster import Cookie, revision_of
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.store import PAGE_KEYS_MAX

FIRST, SECOND = BookieRef("b1", "i1"), BookieRef("b2", "i2")


async def formatted(store: MemoryStore, *bookies: BookieRef) -> None:
    for one in bookies:
        await store.create(
            keys.cookie(one.bookie_id), Cookie("cluster", one.bookie_id, one.incarnation).encode()
        )


async def test_the_bookie_that_is_furthest_behind_counts_and_one_that_has_not_told_is_at_the_beginning() -> (
    None
):
    store = MemoryStore()
    await formatted(store, FIRST, SECOND)
    begun = await revision_of(store)
    await collection_progress.note(store, FIRST, begun)
    assert await collection_progress.passed_by_all(store) == 0
    await collection_progress.note(store, SECOND, await revision_of(store))
    assert await collection_progress.passed_by_all(store) == begun
    await collection_progress.note(store, FIRST, await revision_of(store))
    assert await collection_progress.passed_by_all(store) > begun


async def test_what_another_incarnation_of_the_name_has_told_does_not_count() -> None:
    store = MemoryStore()
    await formatted(store, BookieRef("b1", "made anew"))
    await collection_progress.note(store, FIRST, await revision_of(store))
    assert await collection_progress.passed_by_all(store) == 0


async def test_what_was_told_of_the_revisions_of_another_store_does_not_count() -> None:
    """Its keys were copied: they have versions that are before what they tell."""
    store = MemoryStore()
    await formatted(store, FIRST)
    await collection_progress.note(store, FIRST, 1_000_000)
    assert await collection_progress.passed_by_all(store) == 0


@pytest.mark.parametrize("key", [keys.collected("b1"), keys.cookie("b1")])
async def test_a_bookie_of_which_something_cannot_be_read_is_at_the_beginning(key: str) -> None:
    store = MemoryStore()
    await formatted(store, FIRST)
    await collection_progress.note(store, FIRST, await revision_of(store))
    found = await store.get(key)
    assert found is not None
    await store.replace(key, b"\xff", found.version)
    assert await collection_progress.passed_by_all(store) == 0


async def test_retired_tombstones_leave_one_number() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    made = {
        n: await ledgers.create(LedgerRecord(n, Shape(1, 1, 1), (Fragment(0, (FIRST,)),))) for n in (3, 5, 8)
    }
    for n in (3, 5):
        await ledgers.delete(made[n])
    tombstones = {one.ledger_id: one.version async for one in ledgers.look_up([3, 5])}
    assert await ledger_ids.retired_end(store) == ledger_ids.FIRST_LEDGER_ID
    await collection_progress.retire(store, tombstones)
    assert await ledger_ids.retired_end(store) == 6
    assert [one.ledger_id async for one in ledgers.list_with_deleted()] == [8]
    await collection_progress.retire(store, {3: tombstones[3]})
    assert await ledger_ids.retired_end(store) == 6, "it never goes back"


@pytest.mark.parametrize("behind", [0, 1])
async def test_no_record_of_a_ledger_is_deleted_whatever_its_version(behind: int) -> None:
    """A store that went back may have a record at the version that a tombstone had."""
    store = MemoryStore()
    ledgers = LedgerStore(store)
    made = await ledgers.create(LedgerRecord(3, Shape(1, 1, 1), (Fragment(0, (FIRST,)),)))
    await collection_progress.retire(store, {3: made.version - behind})
    assert await ledgers.read(3) == made
    assert await ledger_ids.retired_end(store) == ledger_ids.FIRST_LEDGER_ID


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_those_and_no_other_ledgers_are_looked_up_whether_they_are_near_each_other_or_not(
    step: int,
) -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    count = PAGE_KEYS_MAX + 5
    for n in range(count):
        for ledger_id in {step * n, step * n + step // 2}:
            await ledgers.create(LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (FIRST,)),)))
    wanted = [step * n for n in range(count)]
    first = await ledgers.read(0)
    assert first is not None
    await ledgers.delete(first)
    found = [one async for one in ledgers.look_up([*wanted, 2**62])]
    assert [one.ledger_id for one in found] == wanted
    assert [isinstance(one, VersionedRecord) for one in found[:2]] == [False, True]
