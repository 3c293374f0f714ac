"""Ledger records, ids and registrations in a metadata store."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import chain

import pytest

from metadata import keys
from metadata.backup import hold
from metadata.counting.counting_store import DONE, CountingStore
from metadata.errors import BadRecord, KeyExists, MetadataRestored, OutcomeUnknown, VersionConflict
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import cluster, ledger_codec, ledger_ids
from metadata.records.cluster import find_bookie, list_bookies
from metadata.records.ledger_record import (
    SEGMENT,
    BookieRef,
    Fragment,
    LedgerRecord,
    Shape,
    Tombstone,
)
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import PAGE_KEYS_MAX, Lease, Versioned
from metadata.version import Version
from tests.support.faulty_store import FaultyStore

ENSEMBLE = (BookieRef("b1", "i1"), BookieRef("b2", "i2"), BookieRef("b3", "i3"))


def record(ledger_id: int) -> LedgerRecord:
    return LedgerRecord(ledger_id, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),))


@pytest.fixture
def ledgers() -> LedgerStore:
    return LedgerStore(MemoryStore())


async def test_a_record_is_created_once_changed_by_version_and_read_back(ledgers: LedgerStore) -> None:
    created = await ledgers.create(record(7))
    assert await ledgers.read(7) == created
    with pytest.raises(KeyExists):
        await ledgers.create(record(7))
    changed = await ledgers.change(created.record.in_recovery(), created.version)
    assert changed.record.nonce != created.record.nonce, "each change is recognisable"
    with pytest.raises(VersionConflict):
        await ledgers.change(created.record.in_recovery(), created.version)
    assert await ledgers.read(7) == changed
    await ledgers.delete(changed)
    assert await ledgers.read(7) is None


async def test_a_change_that_is_to_meet_no_hold_changes_nothing_where_there_is_one(
    ledgers: LedgerStore,
) -> None:
    created = await ledgers.create(record(7))
    await hold.begin(ledgers.store, backup_ms=0, now_ms=1)
    with pytest.raises(MetadataRestored):
        await ledgers.change(created.record.in_recovery(1), created.version, unless_held=True)
    assert await ledgers.read(7) == created
    await hold.accept(ledgers.store)
    changed = await ledgers.change(created.record.in_recovery(1), created.version, unless_held=True)
    assert await ledgers.read(7) == changed
    assert changed.record.written_at == 1


def test_what_others_change_in_an_open_record_makes_it_no_newer() -> None:
    """A bookie that returned in between vouches for what the writer left at version 3 no more than before."""
    open_record = record(7)
    changed = open_record.left_by_writer(3).left_by_writer(9)
    assert changed.in_recovery(12).written_at == 3
    second = Fragment(10, changed.fragments[0].ensemble)
    assert changed.changed_ensemble(second).in_recovery(15).written_at == 15
    assert changed.in_recovery(12).left_by_writer(20).written_at == 3
    assert open_record.in_recovery().left_by_writer(20).written_at == 0, (
        "the mark of a recovery that does not say when"
    )
    assert open_record.closed(-1, 0).left_by_writer(20).written_at == 0


async def test_who_holds_more_than_an_older_record_knows_is_named_in_it_until_it_is_closed(
    ledgers: LedgerStore,
) -> None:
    created = await ledgers.create(record(7))
    other = BookieRef("b9", "i9")
    changed = await ledgers.change(created.record.found_at(other), created.version)
    found = await ledgers.read(7)
    assert found == changed and found.record.also_at == (other,)
    assert found.record.in_recovery(3).closed(-1, 0).also_at == ()


async def test_a_listing_gives_every_ledger_in_id_order_across_pages(ledgers: LedgerStore) -> None:
    ids = [*range(PAGE_KEYS_MAX + 5), 2**63 - 1]
    for ledger_id in reversed(ids):
        await ledgers.create(record(ledger_id))
    assert [found.record.ledger_id async for found in ledgers.list()] == ids


async def test_a_watch_shows_each_change_of_its_ledger_and_its_end(ledgers: LedgerStore) -> None:
    created = await ledgers.create(record(1))
    async with aclosing(ledgers.watch(1, after_revision=created.version)) as changes:
        changed = await ledgers.change(created.record.in_recovery(), created.version)
        await ledgers.create(record(0x10))  # another key that shares no prefix with ours
        await ledgers.delete(changed)
        assert await anext(changes) == changed
        assert await anext(changes) is None


async def test_ids_are_taken_once_however_many_take_them_at_once() -> None:
    data = MemoryData()
    stores = [MemoryStore(data) for _ in range(8)]
    taken = await asyncio.gather(*(ledger_ids.take_ledger_ids(stores[n % 8], 1) for n in range(80)))
    assert sorted(chain(*taken)) == list(range(1, 81))


@pytest.mark.parametrize("taken", [0, 3])
async def test_a_counter_that_was_moved_past_an_id_goes_on_behind_it_and_never_back(taken: int) -> None:
    store = MemoryStore()
    assert [await ledger_ids.take_ledger_ids(store, 1) for _ in range(taken)] == [
        range(n, n + 1) for n in range(1, taken + 1)
    ]
    await ledger_ids.count_beyond(store, 41)
    assert await ledger_ids.counted_end(store) == 42
    await ledger_ids.count_beyond(store, 5)
    assert await ledger_ids.take_ledger_ids(store, 1) == range(42, 43)


async def test_the_last_id_of_all_is_given_and_none_after_it() -> None:
    store = MemoryStore()
    await ledger_ids.count_beyond(store, keys.LEDGER_ID_MAX - 1)
    last = await ledger_ids.take_ledger_ids(store, 1)
    assert last == range(keys.LEDGER_ID_MAX, keys.LEDGER_ID_MAX + 1)
    with pytest.raises(BadRecord, match="is not a valid ledger id"):
        await ledger_ids.take_ledger_ids(store, 1)


@pytest.mark.parametrize("value", [b"", b"\xff\xff\xff", b"\x08\x63"])
def test_a_record_that_cannot_be_trusted_is_named_and_not_used(value: bytes) -> None:
    with pytest.raises(BadRecord, match="ledgers/0000000000000001"):
        ledger_codec.decode(keys.ledger(1), value)


async def test_registrations_are_listed_by_name_also_read_only_ones() -> None:
    store = MemoryStore()
    lease = await store.grant_lease(60)
    one = Registration(ENSEMBLE[0], "h1:1", "/rack1", session=b"s")
    two = Registration(ENSEMBLE[1], "h2:1", writable=False)
    for registration in (two, one):
        await store.create(registration.key, registration.encode(), lease=lease)
    assert await list_bookies(store) == [one, two]
    assert await find_bookie(store, "b2") == two
    assert await find_bookie(store, "b3") is None


async def test_the_cluster_gets_one_id_whoever_asks_first() -> None:
    data = MemoryData()
    assert await cluster.cluster_id(MemoryStore(data)) is None
    made = await asyncio.gather(*(cluster.cluster_id(MemoryStore(data), create=True) for _ in range(5)))
    assert len(set(made)) == 1
    assert made[0] is not None


@pytest.mark.parametrize("value", [b"", b"\xff\xff\xff", b"\x08\x63"])
async def test_a_layout_that_cannot_be_trusted_is_named_and_not_replaced(value: bytes) -> None:
    store = MemoryStore()
    version = await store.create(keys.LAYOUT, value)
    with pytest.raises(BadRecord, match="layout"):
        await cluster.cluster_id(store, create=True)
    assert await store.get(keys.LAYOUT) == Versioned(keys.LAYOUT, value, version)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "-a", "a..b", "x" * 129, "ü"])
def test_a_name_that_could_leave_its_key_or_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a usable name"):
        keys.check_name(name)


def test_a_record_round_trips_with_everything_in_it() -> None:
    second = Fragment(5, (ENSEMBLE[0], BookieRef("b4", "i4"), ENSEMBLE[2]), 1234)
    full = replace(
        record(3).changed_ensemble(second).closed(9, 5678),
        custom_metadata={"a": b"\x00\xff"},
        nonce=b"n",
        created_ms=5,
        verifier=b"v" * 32,
    )
    assert ledger_codec.decode(keys.ledger(3), ledger_codec.encode(full)) == full


async def test_the_id_of_a_deleted_ledger_is_never_given_again(ledgers: LedgerStore) -> None:
    """Bookies may still hold the deleted ledger's entries and fences under it."""
    created = await ledgers.create(record(7))
    other = await ledgers.create(record(8))
    async with aclosing(ledgers.watch(7, after_revision=created.version)) as changes:
        await ledgers.delete(created)
        assert await anext(changes) is None
    assert await ledgers.read(7) is None
    assert [found async for found in ledgers.list()] == [other]
    with pytest.raises(KeyExists):
        await ledgers.create(record(7))
    with pytest.raises(VersionConflict):
        await ledgers.delete(created)


async def test_a_creation_that_comes_true_late_brings_no_deleted_ledger_back() -> None:
    """M1: the creation was tried twice; its first try arrives after the ledger was deleted."""
    store = FaultyStore()
    store.fail(OutcomeUnknown("silent"), bad=1)
    ledgers = LedgerStore(store)
    await ledgers.delete(await ledgers.create(record(7)))
    with suppress(KeyExists):
        await store.create(keys.ledger(7), ledger_codec.encode(record(7)))
    assert await ledgers.read(7) is None


class LosesTheAnswer(MemoryStore):
    """The first creation is carried out, its answer is lost, and then somebody restores a backup over it."""

    is_lost = False

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> Version:
        version = await super().create(key, value, lease=lease, unless=unless)
        if key.startswith(keys.LEDGERS) and not self.is_lost:
            self.is_lost = True
            await super().create(keys.RESTORED, b"")
            raise OutcomeUnknown("the answer was lost")
        return version


async def test_nothing_is_created_while_nobody_has_accepted_a_backup() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    barring = await store.create(keys.RESTORED, b"")
    with pytest.raises(MetadataRestored):
        await ledgers.create(record(7))
    assert await ledgers.read(7) is None
    await store.delete(keys.RESTORED, barring)
    await ledgers.create(record(7))
    with pytest.raises(KeyExists):
        await ledgers.create(record(7))


async def test_a_ledger_that_was_made_before_the_backup_came_is_known_to_be_ours() -> None:
    ledgers = LedgerStore(LosesTheAnswer())
    assert await ledgers.create(record(7)) == await ledgers.read(7)


async def test_a_ledger_of_another_identity_is_neither_changed_nor_deleted_though_its_version_is_the_same() -> (
    None
):
    """A store that went back to an older copy gives ids and versions twice."""
    before, now = LedgerStore(MemoryStore()), LedgerStore(MemoryStore())
    older = await before.create(replace(record(7), identity=b"1" * 16))
    newer = await now.create(replace(record(7), identity=b"2" * 16))
    assert older.version == newer.version
    with pytest.raises(VersionConflict):
        await now.change(older.record.in_recovery(), older.version)
    with pytest.raises(VersionConflict):
        await now.delete(older)
    assert await now.read(7) == newer
    assert (await now.read_again(older.record), await now.read_again(newer.record)) == (None, newer)
    await now.delete(newer)
    assert await now.tombstone(7) == Tombstone(7, b"2" * 16)


async def test_a_record_written_by_another_change_at_the_same_version_is_neither_changed_nor_deleted() -> (
    None
):
    """A store that went back assigns the version of a lost change to another change of the same ledger."""
    lost, now = LedgerStore(MemoryStore()), LedgerStore(MemoryStore())
    in_lost = await lost.create(replace(record(7), identity=b"1" * 16))
    in_now = await now.create(in_lost.record)
    second = Fragment(5, (ENSEMBLE[0], BookieRef("b4", "i4"), ENSEMBLE[2]), 10)
    known = await lost.change(in_lost.record.changed_ensemble(second), in_lost.version)
    there = await now.change(in_now.record.in_recovery(), in_now.version)
    assert known.version == there.version
    with pytest.raises(VersionConflict):
        await now.change(known.record.changed_ensemble(replace(second, first_entry=6)), known.version)
    with pytest.raises(VersionConflict):
        await now.delete(known)
    assert await now.read(7) == there


async def test_a_tombstone_says_whether_its_ledger_was_of_a_log() -> None:
    ledgers = LedgerStore(MemoryStore())
    for ledger_id, said in ((7, {SEGMENT: b"of a log"}), (8, {"owner": b"ada"})):
        await ledgers.delete(await ledgers.create(replace(record(ledger_id), custom_metadata=said)))
    found = [one async for one in ledgers.list_with_deleted()]
    assert [(one.ledger_id, isinstance(one, Tombstone) and one.is_of_log) for one in found] == [
        (7, True),
        (8, False),
    ]


async def test_a_change_compares_identity_and_version_in_one_call_of_the_store() -> None:
    store = CountingStore(MemoryStore())
    ledgers = LedgerStore(store)
    made = await ledgers.create(replace(record(7), identity=b"1" * 16))
    changed = await ledgers.change(made.record.in_recovery(), made.version)
    await ledgers.delete(changed)
    assert store.counts.calls() == {("create", DONE): 1, ("replace", DONE): 2}


async def test_a_record_that_became_unreadable_is_changed_by_nobody() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    made = await ledgers.create(replace(record(7), identity=b"1" * 16))
    version = await store.replace(keys.ledger(7), b"\x08\x63", made.version)
    known = Version(version, ledger_codec.encode(made.record))
    with pytest.raises(VersionConflict):
        await ledgers.change(made.record.in_recovery(), known)
