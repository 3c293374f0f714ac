"""What a reader knows of a ledger's record never goes back."""

from __future__ import annotations

import asyncio
import random

import pytest

from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import MetadataWentBack, NoSuchLedger
from ledgers.integrity.digest import Crc32cDigester
from ledgers.reading import ledger_view
from ledgers.reading.ledger_view import LedgerView
from metadata.backup import hold
from metadata.errors import StoreUnavailable
from metadata.healing import collection_progress
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.version import Version
from tests.support.aio import TEST_SECONDS_MAX, cancel, until_true
from tests.support.faulty_store import FaultyStore

OPEN = LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),))


def view_of(found: VersionedRecord) -> LedgerView:
    return view_in(MemoryStore(), found)


def test_a_watch_that_lags_behind_a_read_takes_nothing_back() -> None:
    """Else a closed ledger were open again, and its tail would never end."""
    view = view_of(VersionedRecord(OPEN, Version(1)))
    view._take(VersionedRecord(OPEN.in_recovery().closed(4, 10), Version(3)))
    view._take(VersionedRecord(OPEN.in_recovery(), Version(2)))
    assert view.is_closed
    assert view.last_add_confirmed == 4


def test_a_lac_told_by_a_bookie_counts_until_the_ledger_is_closed() -> None:
    """F5: a bookie may have heard of more than the ledger kept."""
    view = view_of(VersionedRecord(OPEN, Version(1)))
    view.note_lac(6)
    view.note_lac(5)
    assert view.last_add_confirmed == 6
    view._take(VersionedRecord(OPEN.in_recovery().closed(4, 10), Version(2)))
    view.note_lac(6)
    assert view.last_add_confirmed == 4


def test_what_lies_before_the_last_fragment_is_confirmed_whatever_bookies_have_heard() -> None:
    changed = OPEN.changed_ensemble(Fragment(10, (BookieRef("b2", "i2"),)))
    view = view_of(VersionedRecord(changed, Version(1)))
    assert view.last_add_confirmed == 9
    view.note_lac(4)
    assert view.last_add_confirmed == 9
    view.note_lac(11)
    view._take(VersionedRecord(changed.in_recovery(), Version(2)))
    assert view.last_add_confirmed == 11


def view_in(store: MemoryStore, found: VersionedRecord) -> LedgerView:
    config = ClientConfig()
    cluster = Cluster(store, LedgerStore(store), ConnectedBookies(store, config), config, random.Random(0))
    return LedgerView(cluster, found, Crc32cDigester(7))


async def test_a_ledger_that_is_deleted_under_its_follower_is_no_ledger() -> None:
    store = MemoryStore()
    found = await LedgerStore(store).create(OPEN)
    following = asyncio.create_task(view_in(store, found).follow())
    await LedgerStore(store).delete(found)
    with pytest.raises(NoSuchLedger):
        await following


async def test_a_follower_whose_history_was_compacted_goes_on_from_what_stands_now() -> None:
    """What it missed may be the close, after which nothing changes any more."""
    store = MemoryStore(MemoryData(events_kept_max=1))
    found = await LedgerStore(store).create(OPEN)
    view = view_in(store, found)
    recovering = await LedgerStore(store).change(OPEN.in_recovery(), found.version)
    closed = await LedgerStore(store).change(recovering.record.closed(4, 10), recovering.version)
    await store.create("another's", b"")
    view.changed.clear()
    following = asyncio.create_task(view.follow())
    async with asyncio.timeout(TEST_SECONDS_MAX):
        await view.changed.wait()
    assert view.record == closed.record
    await cancel(following)


async def test_who_follows_a_ledger_over_a_store_that_went_back_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch says nothing: to it nothing happens any more."""
    monkeypatch.setattr(ledger_view, "LOOK_SECONDS", 0.0)
    store, older = MemoryStore(), MemoryData()
    found = await LedgerStore(store).create(OPEN)
    assert (await LedgerStore(MemoryStore(older)).create(OPEN)).version == found.version
    changed = await LedgerStore(store).change(OPEN.in_recovery(), found.version)
    view = view_in(store, changed)
    store._data = older
    with pytest.raises(
        MetadataWentBack, match=f"has version {found.version} of .*, but had version {changed.version}"
    ):
        await view.look()


async def test_who_follows_a_ledger_that_the_store_lost_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_view, "LOOK_SECONDS", 0.0)
    store = MemoryStore()
    found = await LedgerStore(store).create(OPEN)
    view = view_in(store, found)
    store._data = MemoryData()
    await hold.begin(store, backup_ms=0, now_ms=1)
    with pytest.raises(
        MetadataWentBack,
        match="whether ledger 7 exists: the metadata of the cluster that was here is gone",
    ):
        await view.look()


async def test_a_ledger_that_is_gone_without_a_tombstone_tells_that_the_store_went_back() -> None:
    """Also before a bookie has noticed. Deleted, it would have left one, or a higher end of what was retired."""
    store = MemoryStore()
    view = view_in(store, await LedgerStore(store).create(OPEN))
    store._data = MemoryData()
    with pytest.raises(MetadataWentBack, match=r"no longer knows ledger 7, .* until an operator accepts it"):
        await view.refresh()


async def test_a_ledger_that_was_deleted_is_gone_while_its_tombstone_stands_and_after_it() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    view = view_in(store, found := await ledgers.create(OPEN))
    await ledgers.delete(found)
    with pytest.raises(NoSuchLedger):
        await view.refresh()
    tombstone = await ledgers.tombstone(7)
    assert tombstone is not None
    await collection_progress.retire(store, {7: tombstone.version})
    assert await ledgers.tombstone(7) is None
    with pytest.raises(NoSuchLedger):
        await view.refresh()


async def test_a_store_that_does_not_answer_ends_no_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watch goes on by itself when the store is back."""
    monkeypatch.setattr(ledger_view, "LOOK_SECONDS", 0.0)
    store = FaultyStore()
    found = await LedgerStore(store).create(OPEN)
    view = view_in(store, found)
    view.changed.clear()
    following = asyncio.create_task(view.look())
    store.fail(StoreUnavailable("no answer"), calls={"get"})
    await until_true(lambda: store.failures >= 2, pause_seconds=0)
    store.heal()
    changed = await LedgerStore(store).change(OPEN.in_recovery(), found.version)
    await view.changed.wait()
    assert view.record == changed.record
    await cancel(following)
