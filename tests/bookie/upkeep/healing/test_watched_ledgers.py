"""The auditor knows all records by one listing and a watch, and lists again where the watch has missed something."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from bookie.upkeep.healing import watched_ledgers
from bookie.upkeep.healing.watched_ledgers import WatchedLedgers
from metadata import keys, opened_store
from metadata.errors import StoreUnavailable, WatchCompacted
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.store import Page, WatchEvent
from tests.support.aio import limited, until_true
from tests.support.ledgers import change, delete
from tests.support.present import there

ON_ONE = (Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),))


class Failing(MemoryStore):
    """Its listings and watches fail when they are told to."""

    listings = 0
    lists_badly = False
    breaks: BaseException | None = None

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        if prefix == keys.LEDGERS:
            self.listings += 1
            if self.lists_badly:
                raise StoreUnavailable("away")
        return await super().list_page(prefix, after=after, limit=limit)

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(prefix, after_revision=after_revision):
            if self.breaks is not None:
                error, self.breaks = self.breaks, None
                raise error
            yield event


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> Failing:
    monkeypatch.setattr(watched_ledgers, "LOOK_SECONDS", 0.01)
    return Failing(MemoryData())


@pytest.fixture
async def watched(store: Failing) -> AsyncIterator[WatchedLedgers]:
    for ledger_id in (1, 2, 3):
        await LedgerStore(store).create(
            LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),))
        )
    watched = WatchedLedgers(store)
    yield watched
    await watched.stop()


async def comes_to_be_as_listed(store: Failing, watched: WatchedLedgers) -> None:
    async def is_so() -> bool:
        listed = [one async for one in LedgerStore(store).list_with_deleted()]
        return watched.is_whole and [one async for one in watched.list_with_deleted()] == listed

    await limited(until_true(is_so), 10)


async def test_what_changes_is_known_without_another_listing(store: Failing, watched: WatchedLedgers) -> None:
    watched.start()
    await comes_to_be_as_listed(store, watched)
    ledgers, before = LedgerStore(store), store.listings
    watched.has_changed = False
    await change(ledgers, 2, lambda it: it.closed(4, 10))
    await delete(ledgers, 3)
    await ledgers.create(LedgerRecord(9, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),)))
    tombstone = there(await store.get(keys.ledger(3)))
    await store.delete(tombstone.key, tombstone.version)

    async def is_known() -> bool:
        return [one.ledger_id async for one in watched.list_with_deleted()] == [1, 2, 9]

    await limited(until_true(is_known), 10)
    assert watched.has_changed and store.listings == before
    await comes_to_be_as_listed(store, watched)


async def test_what_changed_while_it_was_listed_is_not_missed(
    store: Failing, watched: WatchedLedgers
) -> None:
    ledgers = LedgerStore(store)
    list_page = store.list_page

    async def changed_meanwhile(prefix: str, **options: object) -> Page:
        page = await list_page(prefix, **options)  # type: ignore[arg-type]
        if prefix == keys.LEDGERS:
            store.list_page = list_page  # type: ignore[method-assign]
            await change(ledgers, 1, lambda it: it.closed(4, 10))
            await delete(ledgers, 2)
        return page

    store.list_page = changed_meanwhile  # type: ignore[method-assign]
    watched.start()
    await comes_to_be_as_listed(store, watched)


@pytest.mark.parametrize("why", [WatchCompacted(7), StoreUnavailable("away")])
async def test_where_the_watch_has_ended_all_is_listed_again(
    store: Failing, watched: WatchedLedgers, why: Exception
) -> None:
    watched.start()
    await comes_to_be_as_listed(store, watched)
    store.breaks, store.lists_badly = why, True
    await delete(LedgerStore(store), 1)
    await limited(until_true(lambda: not watched.is_whole), 10)
    store.lists_badly = False
    await comes_to_be_as_listed(store, watched)


async def test_a_listing_that_fails_is_made_again_and_until_then_nothing_is_whole(
    store: Failing, watched: WatchedLedgers
) -> None:
    store.lists_badly = True
    watched.start()
    await limited(until_true(lambda: store.listings > 2), 10)
    assert not watched.is_whole
    store.lists_badly = False
    await comes_to_be_as_listed(store, watched)


async def test_a_key_that_nobody_can_read_hinders_no_other(store: Failing, watched: WatchedLedgers) -> None:
    await store.create(keys.LEDGERS + "stray", b"?")
    await store.create(keys.ledger(7), b"\xff")
    watched.start()
    await comes_to_be_as_listed(store, watched)


async def test_a_watch_that_ended_by_a_fault_of_the_program_is_not_taken_for_one_that_goes_on(
    store: Failing, watched: WatchedLedgers
) -> None:
    watched.start()
    await comes_to_be_as_listed(store, watched)
    store.breaks = ZeroDivisionError("a fault")
    await delete(LedgerStore(store), 1)

    def is_told() -> bool:
        try:
            watched.start()
        except ZeroDivisionError:
            return True
        return False

    await limited(until_true(is_told), 10)


async def test_who_stops_forgets_all(store: Failing, watched: WatchedLedgers) -> None:
    watched.start()
    await comes_to_be_as_listed(store, watched)
    await watched.stop()
    assert not watched.is_whole and not watched.is_started
    assert [one async for one in watched.list_with_deleted()] == []


async def test_in_a_store_that_went_back_all_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch would be silent until the store had come as far as before, and would have missed what is other now."""
    monkeypatch.setattr(watched_ledgers, "LOOK_SECONDS", 0.01)
    async with opened_store(f"sqlite://{tmp_path}/m.db", create=True) as store:
        ledgers = LedgerStore(store)
        await ledgers.create(LedgerRecord(1, *ON_ONE))
        copy = sqlite3.connect(":memory:")
        with sqlite3.connect(tmp_path / "m.db") as live:
            live.backup(copy)
        for ledger_id in range(2, 9):
            await ledgers.create(LedgerRecord(ledger_id, *ON_ONE))
        watched = WatchedLedgers(store)
        watched.start()

        async def is_as_listed() -> bool:
            known = [one async for one in watched.list_with_deleted()]
            return watched.is_whole and known == [one async for one in ledgers.list_with_deleted()]

        await limited(until_true(is_as_listed), 10)
        with sqlite3.connect(tmp_path / "m.db") as live:
            copy.backup(live)
        await change(ledgers, 1, lambda it: it.closed(4, 10))
        await limited(until_true(is_as_listed), 10)
        assert [one.ledger_id async for one in watched.list_with_deleted()] == [1]
        await watched.stop()
