"""What a bookie tells of its collections: nothing of what was deleted until then is here, or comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bookie.upkeep.collecting.collector import CollectionResult, Collector
from bookie.wire.messages import Status
from metadata import keys
from metadata.healing import collection_progress
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records.cluster import revision_of
from metadata.records.ledger_ids import count_beyond
from metadata.records.ledger_record import Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from tests.bookie.bookies import append, bookie_on
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import acks, plain, served
from tests.bookie.upkeep.test_collector import LEDGERS, ME, OK, Site, on_site
from tests.support.ledgers import delete


async def passed(site: Site) -> int:
    key = keys.cookie(ME.bookie_id)
    if await site.store.get(key) is None:
        await site.store.create(key, site.cookie.encode())
    return await collection_progress.passed_by_all(site.store)


async def retired(site: Site, *ledger_ids: int) -> None:
    found = {one.ledger_id: one.version async for one in site.ledgers.look_up(sorted(ledger_ids))}
    assert found.keys() == set(ledger_ids) and max(found.values()) <= await passed(site)
    await collection_progress.retire(site.store, found)


async def test_a_whole_round_tells_the_revision_at_which_it_began(tmp_path: Path) -> None:
    async with on_site(tmp_path) as site:
        await site.delete(2)
        begun = await revision_of(site.store)
        assert await passed(site) == 0
        forget = site.bookie.forget

        async def with_another_deletion(ledger_ids: list[int]) -> None:
            await site.delete(3)
            await forget(ledger_ids)

        site.bookie.forget = with_another_deletion  # type: ignore[method-assign, assignment]
        await site.collect()
        site.bookie.forget = forget  # type: ignore[method-assign]
        assert begun <= await passed(site) < await revision_of(site.store) - 1
        (tombstone,) = [one async for one in site.ledgers.look_up([3])]
        assert not isinstance(tombstone, VersionedRecord) and tombstone.version > await passed(site)
        await site.collect()
        assert tombstone.version <= await passed(site)


async def test_a_round_that_does_not_forget_all_tells_nothing(tmp_path: Path) -> None:
    async with on_site(tmp_path) as site:
        await site.delete(2)
        collector = Collector(site.bookie, site.store, site.cookie, RateLimit(1e9))

        async def forgets_none(_: object) -> int:
            return 0

        collector._forget_deleted = forgets_none  # type: ignore[method-assign, assignment]
        await collector.collect(also_misplaced=False)
        assert await passed(site) == 0


async def test_a_round_reads_the_keys_of_what_is_here_and_no_others(tmp_path: Path) -> None:
    async with on_site(tmp_path) as site:
        for ledger_id in range(100, 130):
            await site.ledgers.create(LedgerRecord(ledger_id, Shape(1, 1, 1), (Fragment(0, (ME,)),)))
        seen = list[int]()
        look_up = site.ledgers.look_up

        async def watched(ids: list[int]):  # type: ignore[no-untyped-def]
            async for one in look_up(ids):
                seen.append(one.ledger_id)
                yield one

        collector = Collector(site.bookie, site.store, site.cookie, RateLimit(1e9))
        collector._ledgers.look_up = watched  # type: ignore[method-assign, assignment]
        await collector.collect(also_misplaced=False)
        assert seen == list(range(1, 8))


async def test_a_record_that_was_read_before_a_round_admits_nothing_after_it(tmp_path: Path) -> None:
    """The ledger is deleted between the look-up and its answer, and the tombstone may be gone next."""
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        bookie, ledgers = client.bookie, LedgerStore(store)
        looked_up, may_answer = asyncio.Event(), asyncio.Event()
        read = LedgerStore.read

        async def slow(self: LedgerStore, ledger_id: int) -> VersionedRecord | None:
            found = await read(self, ledger_id)
            if not looked_up.is_set():
                looked_up.set()
                await may_answer.wait()
            return found

        LedgerStore.read = slow  # type: ignore[method-assign]
        try:
            late = asyncio.create_task(client.append(client.request(1, frame_of(7, [0]))))
            await looked_up.wait()
            await delete(ledgers, 7)
            collector = Collector(bookie.bookie, store, bookie.cookie, RateLimit(1e9))
            assert await collector.collect(also_misplaced=False) == CollectionResult()
            may_answer.set()
            assert plain(await late) == acks(1, [Status.UNAUTHORIZED])
        finally:
            LedgerStore.read = read  # type: ignore[method-assign]
        await bookie.bookie.checkpoint()
        assert 7 not in bookie.bookie.index.ledger_ids()


async def test_a_ledger_that_was_looked_up_and_of_which_nothing_is_here_yet_is_closed_too(
    tmp_path: Path,
) -> None:
    async with on_site(tmp_path) as site:
        found = await site.ledgers.create(LedgerRecord(9, Shape(1, 1, 1), (Fragment(0, (ME,)),)))
        site.bookie.learn(found.record)
        await site.delete(9)
        await site.collect()
        assert await append(site.bookie, frame_of(9, [0])) == [Status.FENCED]


async def test_what_a_new_index_has_again_out_of_the_log_is_dropped_where_an_operator_says_so(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    async with on_site(tmp_path, store) as site:
        await site.delete(2, 3)
        await site.collect()
        await retired(site, 2, 3)
        cookie = site.cookie
        assert await append(site.bookie, frame_of(8, [0])) == [OK], "of which the metadata knows nothing"
    for file in (tmp_path / "index").iterdir():
        file.unlink()
    async with bookie_on(tmp_path) as bookie:
        again = Site(bookie, store, cookie)
        assert await again.collect() == CollectionResult(unlisted=3)
        assert await again.here() == list(LEDGERS)
        collector = Collector(bookie, store, cookie, RateLimit(1e9))
        done = await collector.collect(also_misplaced=False, also_retired=True)
        assert done == CollectionResult(ledgers_forgotten=2, unlisted=1)
        assert await again.here() == [1, 4, 5, 6, 7]


async def test_an_operators_word_drops_no_ledger_whose_record_only_cannot_be_read(tmp_path: Path) -> None:
    """As one that a newer program has written."""
    async with on_site(tmp_path) as site:
        await count_beyond(site.store, 100, keys.RETIRED_IDS)
        found = await site.store.get(keys.ledger(4))
        assert found is not None
        await site.store.replace(found.key, b"\xff", found.version)
        collector = Collector(site.bookie, site.store, site.cookie, RateLimit(1e9))
        assert await collector.collect(also_misplaced=False, also_retired=True) == CollectionResult(
            unlisted=1
        )
        assert await site.here() == list(LEDGERS)


async def test_an_id_that_has_no_key_is_kept_below_those_that_were_retired_too(tmp_path: Path) -> None:
    """Somebody has deleted keys by hand, and the index was never lost."""
    async with on_site(tmp_path) as site:
        await site.collect()
        await count_beyond(site.store, 100, keys.RETIRED_IDS)
        found = await site.store.get(keys.ledger(4))
        assert found is not None
        await site.store.delete(found.key, found.version)
        assert await site.collect() == CollectionResult(unlisted=1)
        assert 4 in await site.here()
