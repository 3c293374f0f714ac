"""B3: nothing is forgotten that the metadata has not said, twice and in full, to be deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.errors import DataDirectoryError
from bookie.storage.bookie import Bookie
from bookie.upkeep.collecting.collector import CollectionResult, Collector
from bookie.wire.messages import Status
from metadata import keys
from metadata.backup import hold
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records import cluster
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import AcceptedLoss, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.store import Page, Versioned
from tests.bookie.bookies import append, bookie_on, entries, read, read_request
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import acks, plain, served
from tests.support.ledgers import change, delete
from tests.support.present import there

OK = Status.OK
ME, OTHER = BookieRef("b1", "mine"), BookieRef("b2", "another")
LEDGERS = range(1, 8)


class Site:
    """A bookie with some ledgers of three entries each, and the metadata that knows them."""

    def __init__(self, bookie: Bookie, store: MemoryStore, cookie: Cookie) -> None:
        self.bookie = bookie
        self.store = store
        self.cookie = cookie
        self.ledgers = LedgerStore(store)

    async def collect(
        self, store: MemoryStore | None = None, *, also_misplaced: bool = False
    ) -> CollectionResult:
        collector = Collector(self.bookie, store or self.store, self.cookie, RateLimit(1e9))
        return await collector.collect(also_misplaced=also_misplaced)

    async def delete(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            await delete(self.ledgers, ledger_id)

    async def here(self) -> list[int]:
        return [n for n in LEDGERS if (await self.bookie.read(read_request(n))).status is OK]


@asynccontextmanager
async def on_site(path: Path, store: MemoryStore | None = None) -> AsyncIterator[Site]:
    store = store or MemoryStore()
    cluster_id = there(await cluster.cluster_id(store, create=True))
    for ledger_id in LEDGERS:
        await LedgerStore(store).create(LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (ME,)),)))
    async with bookie_on(path) as bookie:
        for ledger_id in LEDGERS:
            assert await append(bookie, frame_of(ledger_id, range(3))) == [OK]
        yield Site(bookie, store, Cookie(cluster_id, ME.bookie_id, ME.incarnation))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with on_site(tmp_path) as site:
        yield site


async def test_deleted_ledgers_are_forgotten_and_the_others_are_read_as_before(site: Site) -> None:
    await site.delete(2, 3, 7)
    assert await site.collect() == CollectionResult(ledgers_forgotten=3)
    assert await site.here() == [1, 4, 5, 6]
    assert await read(site.bookie, 4) == entries(4, range(3))
    assert site.bookie.index.ledger_ids() == [1, 4, 5, 6]
    assert await site.collect() == CollectionResult()


class BreaksOff(MemoryStore):
    """Its listings fail after the first page."""

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 3) -> Page:
        if after is not None and prefix == keys.LEDGERS:
            raise StoreUnavailable("gone in the middle of a listing")
        return await super().list_page(prefix, after=after, limit=3)


async def test_B3_a_listing_that_breaks_off_deletes_nothing(tmp_path: Path) -> None:
    async with on_site(tmp_path, BreaksOff()) as site:
        await site.delete(1, 2, 7)
        with pytest.raises(StoreUnavailable):
            await site.collect()
        assert await site.here() == list(LEDGERS)


class EndsEarly(MemoryStore):
    """A listing that just ends, which no store may give, and an empty one: as after a restore from a backup."""

    items = 0

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        page = await super().list_page(prefix, after=after, limit=limit)
        return (
            replace(page, items=page.items[: self.items], next_after=None) if prefix == keys.LEDGERS else page
        )


@pytest.mark.parametrize("items", [0, 4])
async def test_B3_what_the_metadata_has_never_heard_of_is_kept(tmp_path: Path, items: int) -> None:
    store = EndsEarly()
    store.items = items
    async with on_site(tmp_path, store) as site:
        assert await site.collect(also_misplaced=True) == CollectionResult(unlisted=len(LEDGERS) - items)
        assert await site.here() == list(LEDGERS)


class ListsTombstones(MemoryStore):
    """Its listings say of ledger 2 what is not so."""

    lies = False

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        page = await super().list_page(prefix, after=after, limit=limit)
        if not self.lies or prefix != keys.LEDGERS:
            return page
        tombstone = next(item.value for item in page.items if item.key == keys.ledger(1))
        return replace(page, items=tuple(self._lie(item, tombstone) for item in page.items))

    def _lie(self, item: Versioned, tombstone: bytes) -> Versioned:
        return replace(item, value=tombstone) if item.key == keys.ledger(2) else item


async def test_B3_the_metadata_is_asked_once_more_before_a_ledger_is_forgotten(tmp_path: Path) -> None:
    store = ListsTombstones()
    async with on_site(tmp_path, store) as site:
        await site.delete(1)
        store.lies = True
        assert await site.collect() == CollectionResult(ledgers_forgotten=1)
        assert await site.here() == [2, 3, 4, 5, 6, 7]


async def test_the_metadata_of_another_cluster_is_not_believed(site: Site) -> None:
    other = MemoryStore()
    await cluster.cluster_id(other, create=True)
    with pytest.raises(DataDirectoryError, match="another cluster"):
        await site.collect(other)
    assert await site.here() == list(LEDGERS)


async def test_B3_everything_is_kept_while_restored_metadata_is_not_accepted(site: Site) -> None:
    await site.delete(1)
    await placed_elsewhere(site, closed=True)
    await hold.begin(site.store, backup_ms=0, now_ms=1)
    assert await site.collect(also_misplaced=True) == CollectionResult(held_back=True)
    assert await hold.accept(site.store, [ME])
    assert await site.collect(also_misplaced=True) == CollectionResult(ledgers_forgotten=1, frames_dropped=1)


async def test_a_ledger_that_gets_frames_while_it_is_forgotten_is_collected_the_next_time(site: Site) -> None:
    await site.delete(1)
    forget = site.bookie.forget

    async def with_late_frames(ledger_ids: Any) -> None:
        assert await append(site.bookie, frame_of(1, [3])) == [OK]
        await forget(ledger_ids)

    site.bookie.forget = with_late_frames  # type: ignore[method-assign]
    await site.collect()
    site.bookie.forget = forget  # type: ignore[method-assign]
    await site.collect()
    assert await site.here() == [2, 3, 4, 5, 6, 7]
    await site.bookie.checkpoint()
    assert 1 not in site.bookie.index.ledger_ids()
    assert 1 not in site.bookie.index.usage.of(0)


async def test_B3_a_late_writer_to_a_forgotten_ledger_is_refused_in_this_life_and_the_next(
    tmp_path: Path,
) -> None:
    """A deleted ledger stays closed: the metadata says so, whatever the bookie has forgotten."""
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        assert plain(await client.append(client.request(1, frame_of(7, [0])))) == acks(1, [OK])
        ledgers = LedgerStore(store)
        await delete(ledgers, 7)
        bookie = client.bookie
        assert (
            await Collector(bookie.bookie, store, bookie.cookie, RateLimit(1e9)).collect(also_misplaced=False)
        ) == (CollectionResult(ledgers_forgotten=1))
        late = await client.append(client.request(1, frame_of(7, [1])))
        assert plain(late) == acks(1, [Status.FENCED])
        assert (await client.read(7, 0, 9)).status is Status.NO_SUCH_LEDGER
    async with served(tmp_path, store) as client:
        late = await client.append(client.request(1, frame_of(7, [1])))
        assert plain(late) == acks(1, [Status.UNAUTHORIZED])


async def test_frames_that_were_on_their_way_when_their_ledger_was_forgotten_do_not_open_it_again(
    tmp_path: Path,
) -> None:
    """Nor in the next life, in which the log has them and the index knows nothing of their ledger."""
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        assert plain(await client.append(client.request(1, frame_of(7, [0])))) == acks(1, [OK])
        ledgers, bookie = LedgerStore(store), client.bookie.bookie
        await delete(ledgers, 7)
        on_its_way = asyncio.get_running_loop().create_future()
        bookie.append(frame_of(7, [1]), lambda status, _: on_its_way.set_result(status))
        await bookie.forget([7])
        assert await on_its_way is OK
        late = await client.append(client.request(1, frame_of(7, [2])))
        assert plain(late) == acks(1, [Status.FENCED])
        await bookie.checkpoint()
        await bookie.forget([7])
        shutil.copytree(tmp_path / "b1", tmp_path / "killed" / "b1")
    async with served(tmp_path / "killed", store) as client:
        late = await client.append(client.request(1, frame_of(7, [2])))
        assert [ack.status for ack in late] in ([Status.FENCED], [Status.UNAUTHORIZED])


# --- copies that the metadata places elsewhere ----------------------------------------------------


async def placed_elsewhere(site: Site, *, closed: bool) -> None:
    """Ledger 4 has moved to another bookie from entry 2 on; 0 and 1 are ours."""
    found = there(await site.ledgers.read(4))
    record = found.record.changed_ensemble(Fragment(2, (OTHER,)))
    assert await append(site.bookie, frame_of(4, [3]), frame_of(4, [1])) == [OK, OK]
    await site.ledgers.change(record.closed(9, 180) if closed else record, found.version)


async def test_copies_of_a_closed_ledger_that_no_fragment_places_here_are_dropped(site: Site) -> None:
    await placed_elsewhere(site, closed=True)
    assert await site.collect(also_misplaced=True) == CollectionResult(frames_dropped=1)
    # The frame of 0 to 2 is partly ours, and is kept whole.
    assert await read(site.bookie, 4) == entries(4, range(3))
    assert await site.collect(also_misplaced=True) == CollectionResult()


async def test_who_was_away_when_older_metadata_was_accepted_drops_none_before_somebody_has_looked(
    site: Site,
) -> None:
    await placed_elsewhere(site, closed=True)
    await hold.begin(site.store, backup_ms=0, now_ms=1)
    assert await hold.accept(site.store, [OTHER])
    one = there(await hold.accepted(site.store))
    collector = Collector(site.bookie, site.store, site.cookie, RateLimit(1e9), one.number)
    assert await collector.collect(also_misplaced=True) == CollectionResult()
    assert not await hold.accept(site.store, [ME, OTHER]), "nothing is held back"
    assert await collector.collect(also_misplaced=True) == CollectionResult(frames_dropped=1)


async def test_copies_of_a_ledger_that_is_open_or_in_recovery_are_kept_wherever_they_belong(
    site: Site,
) -> None:
    """A recovery writes to bookies that the metadata names only when it closes the ledger (R4)."""
    await placed_elsewhere(site, closed=False)
    assert await site.collect(also_misplaced=True) == CollectionResult()
    await change(site.ledgers, 4, lambda it: it.in_recovery())
    assert await site.collect(also_misplaced=True) == CollectionResult()
    assert await read(site.bookie, 4) == entries(4, range(4))


async def test_the_fence_of_a_ledger_outlives_its_copies(site: Site) -> None:
    await site.bookie.fence(4)
    found = there(await site.ledgers.read(4))
    elsewhere = replace(found.record, fragments=(Fragment(0, (OTHER,)),)).closed(2, 60)
    await site.ledgers.change(elsewhere, found.version)
    assert await site.collect(also_misplaced=True) == CollectionResult(frames_dropped=1)
    assert await append(site.bookie, frame_of(4, [3])) == [Status.FENCED]


async def test_nothing_is_dropped_of_a_ledger_closed_before_an_entry_that_the_bookie_proves_to_be_confirmed(
    site: Site,
) -> None:
    """What is here may be the last copies of entries that were acknowledged: the metadata had gone back."""
    await placed_elsewhere(site, closed=True)
    assert await append(site.bookie, frame_of(4, [11], lac=10)) == [OK]
    assert await site.collect(also_misplaced=True) == CollectionResult()
    assert await read(site.bookie, 4) == entries(4, [*range(4), 11])
    found = there(await site.ledgers.read(4))
    loss = AcceptedLoss(at_ms=1, by="an operator", proven_through=10)
    await site.ledgers.change(replace(found.record, accepted_loss=loss), found.version)
    assert await site.collect(also_misplaced=True) == CollectionResult(frames_dropped=2), "it was given up"


async def test_what_the_bookie_proves_of_entries_before_the_end_keeps_nothing(site: Site) -> None:
    await placed_elsewhere(site, closed=True)
    assert await append(site.bookie, frame_of(4, [9], lac=9)) == [OK]
    assert await site.collect(also_misplaced=True) == CollectionResult(frames_dropped=2)


async def test_a_record_that_has_changed_since_the_listing_decides(site: Site) -> None:
    await placed_elsewhere(site, closed=True)
    collector = Collector(site.bookie, site.store, site.cookie, RateLimit(1e9))
    listing = await collector._compare([4])
    found = there(await site.ledgers.read(4))
    back = replace(found.record, fragments=(Fragment(0, (ME,)),))
    await site.ledgers.change(back, found.version)
    assert listing.elsewhere == [4]
    assert await collector._drop_misplaced(listing.elsewhere) == 0
