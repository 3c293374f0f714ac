"""Whether the metadata went back: what a bookie takes for it, and what not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bookie.serving.directory import read_cookie
from bookie.serving.history import directory_generation
from bookie.serving.history.directory_generation import Lives
from bookie.serving.history.metadata_watch import ALWAYS, NEVER, MetadataWatch, StoreComparison
from bookie.storage.bookie import Bookie
from bookie.wire.messages import Status
from metadata import keys
from metadata.backup import hold
from metadata.errors import StoreRefused, StoreUnavailable, VersionConflict
from metadata.leases import lease_clock
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import decommissioned_bookies, directory_generations, ledger_ids
from metadata.records.decommissioned_bookies import Decommissioned
from metadata.records.directory_generations import Life
from metadata.records.ledger_record import BookieRef, Fragment
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import EventKind, Page
from tests.bookie.bookies import append, bookie_on
from tests.bookie.entries import frame_of
from tests.bookie.notes import BK1, BK3, noted, record_of
from tests.bookie.serving.served import formatted
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

LEASE_SECONDS = 60.0


@pytest.fixture
async def store(tmp_path: Path) -> MemoryStore:
    """A bookie was formatted, and has not begun its first life."""
    store = MemoryStore()
    await formatted(tmp_path, store)
    return store


@pytest.fixture
async def bookie(tmp_path: Path, store: MemoryStore) -> AsyncIterator[Bookie]:
    async with bookie_on(tmp_path / "b1", incarnation=read_cookie(tmp_path / "b1").incarnation) as bookie:
        yield bookie


@pytest.fixture
async def lives(tmp_path: Path, store: MemoryStore) -> Lives:
    return await directory_generation.look(tmp_path / "b1", read_cookie(tmp_path / "b1"), store)


@pytest.fixture
def watch(store: MemoryStore, bookie: Bookie, lives: Lives) -> MetadataWatch:
    return MetadataWatch(store, bookie, lives, LEASE_SECONDS)


class Copy:
    """What the store knew of some keys."""

    def __init__(self, store: MemoryStore) -> None:
        self._data, self._entries = store._data, dict(store._data._entries)

    def put_back(self, *, bump: int = 1000) -> None:
        """As `etcdctl snapshot restore --bump-revision`: no revision falls."""
        self._data._entries = dict(self._entries)
        for _ in range(bump):
            self._data._record(EventKind.PUT, "bumped", b"")


async def next_life(path: Path, store: MemoryStore, bookie: Bookie) -> MetadataWatch:
    """Of the bookie's directory as it is now."""
    lives = await directory_generation.look(path / "b1", read_cookie(path / "b1"), store)
    return MetadataWatch(store, bookie, lives, LEASE_SECONDS)


async def test_a_key_that_is_behind_is_a_sign_whatever_the_revision_is(
    tmp_path: Path, store: MemoryStore, bookie: Bookie, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    copy = Copy(store)
    assert not await watch.renew(1)
    copy.put_back()
    assert await watch.vouched_since() == NEVER
    assert await hold.read(store) is not None, "it holds back before it answers"
    assert not await watch.renew(2), "it is told once"
    await hold.accept(store)
    await (await next_life(tmp_path, store, bookie)).begin(3)
    assert await hold.read(store) is None, "also by its next life"


async def test_a_store_that_goes_back_between_a_comparison_and_its_renewal_is_noticed_at_once(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    copy, renew = Copy(store), lives.renew
    await watch.renew(1)

    async def late(self: Lives, position: int) -> int:
        copy.put_back()
        return await renew(position)

    with monkeypatch.context() as patch:
        patch.setattr(Lives, "renew", late)
        with pytest.raises(VersionConflict):
            await watch.renew(2)
    assert await hold.read(store) is not None
    assert not await watch.renew(3)


async def test_a_key_that_is_gone_is_a_sign_and_a_revision_that_fell(
    store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    found = there(await store.get(keys.life("b1")))
    await store.delete(found.key, found.version)
    assert await watch.renew(0)
    assert await hold.accept(store)
    assert not await watch.renew(0)
    lives.revision += 1000
    assert await watch.renew(0)


async def test_it_is_noticed_before_the_next_life_registers(
    tmp_path: Path, store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    copy = Copy(store)
    await watch.renew(1)
    await watch.renew(2)
    copy.put_back()
    lives = await directory_generation.look(tmp_path / "b1", lives.cookie, store)
    assert await StoreComparison(store, lives).check_rollback()


@pytest.mark.parametrize("is_noted", [True, False])
async def test_who_was_away_at_an_acceptance_brings_its_own_ledgers_up_and_nobody_else_waits(
    tmp_path: Path, is_noted: bool, store: MemoryStore, bookie: Bookie, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    older, ledgers = record_of(17), LedgerStore(store)
    newer = older.changed_ensemble(Fragment(5, (BK1, BK3)))
    await ledgers.create(older)
    copy = Copy(store)
    await watch.renew(1)
    await watch.renew(1)
    frames = [noted(record_of(18), [0]), noted(newer, [5])]
    assert await append(bookie, *frames) == [Status.OK] * 2
    if not is_noted:
        assert await append(bookie, frame_of(19, [0])) == [Status.OK]
    copy.put_back()
    await hold.begin(store, backup_ms=0, now_ms=1)
    assert await hold.accept(store, [BK3])
    again = await next_life(tmp_path, store, bookie)
    await again.begin(2)
    assert (await hold.read(store) is None) is is_noted, "of what nothing is noted an operator decides"
    found = [await ledgers.read(n) for n in (17, 18)]
    fragments = [[one.first_entry for one in it.record.fragments] if it else [] for it in found]
    assert fragments == [[0, 5], [0]]
    assert await ledger_ids.counted_end(store) == (19 if is_noted else 20)
    me = BookieRef("b1", bookie.incarnation)
    assert await hold.waiting(store) == ([me] if is_noted else [])
    if is_noted:
        await hold.accept(store, [me])
        assert await hold.waiting(store) == [], "somebody has looked"
        copy = Copy(store)
        await again.renew(3)
        await again.renew(3)
        copy.put_back()
        await (await next_life(tmp_path, store, bookie)).begin(4)
        assert await hold.read(store) is not None, "it went back once more"


@pytest.mark.parametrize("heard", [[], ["itself"]])
async def test_it_holds_all_back_where_it_was_there_or_nobody_says_who_was(
    tmp_path: Path, heard: list[str], store: MemoryStore, bookie: Bookie, lives: Lives, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    copy = Copy(store)
    await watch.renew(1)
    await watch.renew(1)
    copy.put_back()
    await hold.begin(store, backup_ms=0, now_ms=1)
    me = BookieRef(lives.cookie.bookie_id, lives.cookie.incarnation)
    assert await hold.accept(store, [me, BK3] if heard else [])
    await (await next_life(tmp_path, store, bookie)).begin(2)
    assert await hold.read(store) is not None


async def test_a_renewal_whose_answer_was_lost_or_that_was_cut_off_is_no_sign(
    tmp_path: Path, store: MemoryStore, bookie: Bookie, lives: Lives, watch: MetadataWatch
) -> None:
    """The directory is one ahead; the write may have been made, may never be, or may come late."""
    await watch.begin(0)
    lives.renewals += 1
    lives.keep()  # killed before the write
    again = await next_life(tmp_path, store, bookie)
    await again.begin(1)
    found = there(await store.get(keys.life("b1")))
    await store.replace(found.key, found.value, found.version)  # ours, as far as anybody knows
    assert not await again.renew(2)
    assert await hold.read(store) is None


async def test_an_older_copy_of_the_directory_is_no_sign_of_older_metadata(
    tmp_path: Path, store: MemoryStore, bookie: Bookie, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    older = (tmp_path / "b1" / directory_generation.NAME).read_bytes()
    for position in range(5):
        await watch.renew(position)
    (tmp_path / "b1" / directory_generation.NAME).write_bytes(older)
    await (await next_life(tmp_path, store, bookie)).begin(9)
    assert await hold.read(store) is None


async def test_a_key_without_a_count_as_a_restored_cookie_brings_is_compared_by_its_version(
    tmp_path: Path, store: MemoryStore, bookie: Bookie, lives: Lives
) -> None:
    me = lives.cookie.bookie_id, lives.cookie.incarnation
    version = await directory_generations.write(store, *me, Life(1, 7))
    directory_generation._write(tmp_path / "b1", 1, version, version, create=True)
    watch = await next_life(tmp_path, store, bookie)
    await watch.begin(8)
    assert not await watch.renew(9)
    assert await hold.read(store) is None
    directory_generation._write(tmp_path / "b1", 1, 0, 0)
    await directory_generations.write(store, *me, Life(1, 7))
    directory_generation._write(tmp_path / "b1", 1, version + 100, version)
    await (await next_life(tmp_path, store, bookie)).begin(8)
    assert await hold.read(store) is not None


async def test_a_key_that_is_gone_because_the_bookie_was_decommissioned_is_no_sign(
    store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    """It hung meanwhile, or its network did."""
    await watch.begin(0)
    found = there(await store.get(keys.life("b1")))
    await decommissioned_bookies.note(store, Decommissioned("b1", lives.cookie.incarnation, 1))
    await store.delete(found.key, found.version)
    await watch.vouched_since()
    assert await hold.read(store) is None


async def test_what_was_noticed_counts_at_once_and_the_ids_as_soon_as_the_disk_is_well(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, bookie: Bookie, lives: Lives, watch: MetadataWatch
) -> None:
    async def sick() -> None:
        raise OSError(5, "the disk is broken")

    await watch.begin(0)
    await append(bookie, frame_of(41, [0]))
    lives.revision += 1000
    with monkeypatch.context() as patch:
        patch.setattr(bookie, "checkpoint", sick)
        with pytest.raises(OSError, match="broken"):
            await watch.renew(0)
        assert await hold.accept(store)
        with pytest.raises(OSError, match="broken"):
            await watch.renew(0)
    assert await hold.read(store) is None, "it was accepted"
    assert not await watch.renew(0)
    assert await ledger_ids.counted_end(store) > 41


# --- vouching -----------------------------------------------------------------------------------


async def registers(store: MemoryStore, name: str) -> BookieRef:
    """Another bookie, which has renewed its key."""
    other = BookieRef(name, "incarnation")
    await store.create(keys.bookie(name), Registration(other, f"{name}:1").encode())
    await renews(store, other, 1)
    return other


async def renews(store: MemoryStore, other: BookieRef, renewals: int) -> None:
    await directory_generations.write(store, other.bookie_id, other.incarnation, Life(1, 0, renewals))


async def test_of_the_time_before_it_returned_a_bookie_vouches_once_all_others_have_compared(
    store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    others = [await registers(store, name) for name in ("b2", "b3")]
    await watch.begin(0)
    returned = lives.version
    await watch.renew(1)
    assert await watch.vouched_since() == returned
    await renews(store, others[0], 2)
    await watch.renew(2)
    assert await watch.vouched_since() == returned, "b3 may know better"
    await renews(store, others[1], 2)
    await hold.begin(store, backup_ms=0, now_ms=1)
    await watch.renew(3)
    assert await watch.vouched_since() == returned, "somebody does"
    await hold.accept(store)
    await watch.renew(4)
    assert await watch.vouched_since() == ALWAYS


async def test_of_bookies_that_returned_together_the_first_vouches_as_soon_as_the_last_has_begun(
    store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    """Nobody waits for a renewal after a power cut."""
    others = [await registers(store, name) for name in ("b2", "b3")]
    await watch.begin(0)
    await renews(store, others[0], 2)
    assert await watch.vouched_since() == lives.version
    await renews(store, others[1], 2)
    assert await watch.vouched_since() == ALWAYS


async def test_who_noticed_that_the_store_went_back_vouches_by_the_revisions_that_it_counts_from_then_on(
    store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    """Else it were asked in vain until the store had come so far again."""
    await registers(store, "b2")
    Copy(store).put_back()
    await watch.begin(0)
    assert await watch.vouched_since() == lives.version > 1000
    store._data = MemoryData()
    assert await watch.vouched_since() == NEVER
    assert await hold.accept(store)
    await watch.renew(1)
    await registers(store, "b2")
    assert await watch.vouched_since() == ALWAYS


async def test_who_could_not_renew_for_longer_than_its_lease_was_away(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, lives: Lives, watch: MetadataWatch
) -> None:
    now = 100.0
    monkeypatch.setattr(lease_clock, "now", lambda: now)
    await watch.begin(0)
    await watch.renew(1)
    assert await watch.vouched_since() == ALWAYS
    other = await registers(store, "b2")
    now += LEASE_SECONDS + 1
    assert await watch.vouched_since() == NEVER
    await watch.renew(2)
    assert await watch.vouched_since() == lives.version
    await renews(store, other, 2)
    now += LEASE_SECONDS
    await watch.renew(3)
    assert await watch.vouched_since() == ALWAYS


async def test_who_was_suspended_for_longer_than_its_lease_was_away(
    monkeypatch: pytest.MonkeyPatch, watch: MetadataWatch
) -> None:
    read, suspended = time.clock_gettime, 0.0

    def clock(which: int) -> float:
        return read(which) + suspended * (which == time.CLOCK_BOOTTIME)

    monkeypatch.setattr(time, "clock_gettime", clock)
    await watch.begin(0)
    suspended = LEASE_SECONDS / 2
    assert await watch.vouched_since() == ALWAYS
    suspended = LEASE_SECONDS + 1
    assert await watch.vouched_since() == NEVER


async def test_all_fences_that_wait_share_a_comparison_that_began_after_the_last_of_them_came(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, watch: MetadataWatch
) -> None:
    await watch.begin(0)
    assert await watch.vouched_since() == ALWAYS
    list_page, asked, goes_on = store.list_page, asyncio.Event(), asyncio.Event()
    reads = 0

    async def slow(*args: Any, **more: Any) -> Page:
        nonlocal reads
        reads += 1
        asked.set()
        await goes_on.wait()
        return await list_page(*args, **more)

    monkeypatch.setattr(store, "list_page", slow)
    first = asyncio.ensure_future(watch.vouched_since())
    await asked.wait()
    later = [asyncio.ensure_future(watch.vouched_since()) for _ in range(9)]
    goes_on.set()
    assert len(set(await asyncio.gather(first, *later))) == 1
    assert reads == 2


async def test_who_cannot_ask_the_store_vouches_for_nothing(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, watch: MetadataWatch
) -> None:
    async def silent(*_: object, **__: object) -> Page:
        raise StoreUnavailable("silent")

    await watch.begin(0)
    with monkeypatch.context() as patch:
        patch.setattr(store, "list_page", silent)
        assert await watch.vouched_since() == NEVER
    assert await watch.vouched_since() != NEVER


async def test_who_may_not_hold_back_is_told_what_to_grant_and_need_not_where_it_is_done() -> None:
    store = FaultyStore(data := MemoryData())
    store.fail(StoreRefused("etcd: permission denied"), keys=keys.RESTORED)
    with pytest.raises(StoreRefused, match=r"'restored' .*permission denied.*bookledger metadata roles"):
        await hold.begin(store, backup_ms=0, now_ms=1)
    await hold.begin(MemoryStore(data), backup_ms=7, now_ms=1)
    await hold.begin(store, backup_ms=0, now_ms=2)
    found = await hold.read(store)
    assert found is not None and found.backup_ms == 7
