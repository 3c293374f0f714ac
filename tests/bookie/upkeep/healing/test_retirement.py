"""Tombstones go once every bookie has dropped what they tell of, and they are old enough."""

from __future__ import annotations

import pytest

from bookie.upkeep.healing import retirement
from bookie.upkeep.healing.retirement import Retirement
from metadata import keys
from metadata.backup import hold
from metadata.healing import collection_progress
from metadata.memory_store import MemoryStore
from metadata.records import ledger_ids
from metadata.records.cluster import Cookie, revision_of
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape, Tombstone
from metadata.records.ledger_store import LedgerStore

ME, OTHER = BookieRef("b1", "i1"), BookieRef("b2", "i2")
KEPT_SECONDS = 3600.0


class Site:
    """An auditor's retirement, two bookies, and ledgers that were deleted."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ledgers = LedgerStore(self.store)
        self.retirement = Retirement(self.store, KEPT_SECONDS)

    async def begin(self, *ledger_ids_: int) -> None:
        for one in (ME, OTHER):
            cookie = Cookie("cluster", one.bookie_id, one.incarnation)
            await self.store.create(keys.cookie(one.bookie_id), cookie.encode())
        await ledger_ids.take_ledger_ids(self.store, 1000)
        for ledger_id in ledger_ids_:
            record = LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (ME,)),))
            await self.ledgers.delete(await self.ledgers.create(record))
        await self.audit()

    async def audit(self) -> None:
        async for one in self.ledgers.list_with_deleted():
            if isinstance(one, Tombstone):
                self.retirement.see(one)

    async def all_pass(self) -> None:
        for one in (ME, OTHER):
            await collection_progress.note(self.store, one, await revision_of(self.store))

    async def left(self) -> list[int]:
        return [one.ledger_id async for one in self.ledgers.list_with_deleted()]

    def passes(self, seconds: float) -> None:
        before = self.retirement._seconds
        self.retirement._seconds = lambda: before() + seconds  # type: ignore[method-assign]


@pytest.fixture
def site() -> Site:
    return Site()


async def test_a_tombstone_stays_until_every_bookie_has_dropped_the_ledger(site: Site) -> None:
    await site.begin(3, 4)
    site.passes(KEPT_SECONDS)
    await collection_progress.note(site.store, ME, await revision_of(site.store))
    await site.retirement.look()
    assert await site.left() == [3, 4]
    site.passes(retirement.LOOK_AGAIN_SECONDS)
    await collection_progress.note(site.store, OTHER, await revision_of(site.store))
    await site.retirement.look()
    assert await site.left() == []
    assert await ledger_ids.retired_end(site.store) == 5


async def test_a_tombstone_that_is_young_stays(site: Site) -> None:
    await site.begin(3)
    await site.all_pass()
    site.passes(KEPT_SECONDS - 1)
    await site.retirement.look()
    assert await site.left() == [3]


async def test_what_was_deleted_after_a_bookie_had_begun_its_round_stays(site: Site) -> None:
    await site.begin(3)
    await site.all_pass()
    later = LedgerRecord(4, Shape(1, 1, 1), (Fragment(0, (ME,)),))
    await site.ledgers.delete(await site.ledgers.create(later))
    await site.audit()
    site.passes(KEPT_SECONDS)
    await site.retirement.look()
    assert await site.left() == [4]


async def test_nothing_is_retired_while_restored_metadata_is_not_accepted(site: Site) -> None:
    await site.begin(3)
    await site.all_pass()
    site.passes(KEPT_SECONDS)
    await hold.begin(site.store, backup_ms=0, now_ms=1)
    await site.retirement.look()
    assert await site.left() == [3]


async def test_the_tombstone_of_an_id_above_the_counter_stays_for_the_number_would_pass_ids_to_come(
    site: Site,
) -> None:
    await site.begin(3, 5000)
    await site.all_pass()
    site.passes(KEPT_SECONDS)
    await site.retirement.look()
    assert await site.left() == [5000]
    assert await ledger_ids.retired_end(site.store) == 4


async def test_many_go_a_bounded_number_at_a_time_and_another_audit_finds_those_that_were_not_remembered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retirement, "RETIRED_AT_ONCE_MAX", 2)
    monkeypatch.setattr(retirement, "WAITING_MAX", 5)
    await site.begin(*range(1, 9))
    await site.all_pass()
    site.passes(KEPT_SECONDS)
    assert not await site.retirement.look()
    assert await site.left() == list(range(3, 9))
    assert not await site.retirement.look()
    assert await site.retirement.look(), "all that it knew are gone, and it knew of more"
    assert await site.left() == [6, 7, 8]
    await site.audit()
    site.passes(KEPT_SECONDS)
    assert not await site.retirement.look() and not await site.retirement.look()
    assert await site.left() == []
