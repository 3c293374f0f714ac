"""What every metadata store must do. A store is done when this class passes on it.

A subclass names its store by `open_store`: each call opens another instance on the same data, and
each test has data of its own.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import pytest

from metadata.errors import (
    KeyExists,
    LeaseLost,
    NoSuchKey,
    StoreUnavailable,
    ValueTooLarge,
    VersionConflict,
    WatchCompacted,
)
from metadata.store import (
    PAGE_KEYS_MAX,
    VALUE_BYTES_MAX,
    EventKind,
    MetadataStore,
    Versioned,
    WatchEvent,
    list_some,
)
from metadata.version import NO_VERSION, VERSION_BEGINS_BYTES, Version
from tests.support.aio import cancel, take
from tests.support.present import there

Self = TypeVar("Self", bound="MetadataStoreContract")

EVENTS_KEPT = 500
"""For stores that let a test say so."""

TASKS = 8
INCREMENTS_PER_TASK = 10


@asynccontextmanager
async def watching(
    store: MetadataStore, prefix: str, after_revision: int | None = None
) -> AsyncIterator[AsyncIterator[WatchEvent]]:
    """A watch that is closed at the end."""
    events: Any = store.watch(prefix, after_revision=after_revision)
    try:
        yield events
    finally:
        await events.aclose()


async def keys_in_pages(store: MetadataStore, prefix: str, limit: int) -> list[list[str]]:
    """The pages of a whole listing, as keys."""
    pages: list[list[str]] = []
    after: str | None = None
    while True:
        page = await store.list_page(prefix, after=after, limit=limit)
        pages.append([item.key for item in page.items])
        if page.next_after is None:
            return pages
        after = page.next_after


async def increment(store: MetadataStore, key: str) -> None:
    """Adds one to the number under `key` by compare-and-swap, again until it wins."""
    while True:
        found = await store.get(key)
        assert found is not None
        try:
            await store.replace(key, str(int(found.value) + 1).encode(), found.version)
        except VersionConflict:
            continue
        return


class MetadataStoreContract(ABC):
    """The promises of `MetadataStore`, one test each."""

    ttl_seconds: float
    """A short time to live that the store can grant."""

    @abstractmethod
    async def open_store(self) -> MetadataStore:
        """Another instance on this test's data."""

    async def forget_history(self, store: MetadataStore, key: str) -> None:
        """Makes the store drop the events up to now, by changing `key` until it keeps no more, or otherwise."""
        version = there(await store.get(key)).version
        for _ in range(EVENTS_KEPT):
            version = await store.replace(key, b"", version)

    @pytest.fixture
    async def store(self) -> AsyncIterator[MetadataStore]:
        store = await self.open_store()
        yield store
        await store.close()

    @pytest.fixture
    async def other(self) -> AsyncIterator[MetadataStore]:
        """A second instance."""
        other = await self.open_store()
        yield other
        await other.close()

    # Reading and compare-and-swap

    async def test_a_missing_key_reads_as_none(self, store: MetadataStore) -> None:
        assert await store.get("a") is None

    async def test_a_created_key_reads_back_with_the_version_create_returned(
        self, store: MetadataStore
    ) -> None:
        version = await store.create("a", b"one")
        assert await store.get("a") == Versioned("a", b"one", version)

    async def test_an_empty_value_and_any_bytes_are_kept_as_they_are(self, store: MetadataStore) -> None:
        every_byte = bytes(range(256))
        empty, full = await store.create("empty", b""), await store.create("full é 鍵", every_byte)
        assert await store.get("empty") == Versioned("empty", b"", empty)
        assert await store.get("full é 鍵") == Versioned("full é 鍵", every_byte, full)

    async def test_creating_a_key_that_exists_is_refused_and_changes_nothing(
        self, store: MetadataStore
    ) -> None:
        version = await store.create("a", b"one")
        with pytest.raises(KeyExists) as refusal:
            await store.create("a", b"two")
        assert refusal.value.key == "a"
        assert await store.get("a") == Versioned("a", b"one", version)

    async def test_a_key_is_not_created_while_the_one_that_bars_it_exists(self, store: MetadataStore) -> None:
        barring = await store.create("bar", b"")
        with pytest.raises(KeyExists) as refusal:
            await store.create("a", b"one", unless="bar")
        assert refusal.value.key == "bar"
        assert await store.get("a") is None
        await store.delete("bar", barring)
        version = await store.create("a", b"one", unless="bar")
        assert await store.get("a") == Versioned("a", b"one", version)
        with pytest.raises(KeyExists) as refusal:
            await store.create("a", b"two", unless="bar")
        assert refusal.value.key == "a"

    async def test_a_key_is_not_replaced_while_the_one_that_bars_it_exists(
        self, store: MetadataStore
    ) -> None:
        version = await store.create("a", b"one")
        barring = await store.create("bar", b"")
        with pytest.raises(KeyExists) as refusal:
            await store.replace("a", b"two", version, unless="bar")
        assert refusal.value.key == "bar"
        assert await store.get("a") == Versioned("a", b"one", version)
        await store.delete("bar", barring)
        with pytest.raises(VersionConflict):
            await store.replace("a", b"two", Version(version + 1), unless="bar")
        with pytest.raises(NoSuchKey):
            await store.replace("none", b"two", version, unless="bar")
        later = await store.replace("a", b"two", version, unless="bar")
        assert await store.get("a") == Versioned("a", b"two", later)

    async def test_whoever_bars_a_creation_first_or_is_too_late_is_seen_alike_by_all(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        """Looked at in one step: a key that was created beside the one that bars it was there before it."""
        for n in range(20):
            bar, key = f"bar-{n}", f"key-{n}"
            done = await asyncio.gather(
                store.create(bar, b""), other.create(key, b"", unless=bar), return_exceptions=True
            )
            barred, made = done
            assert isinstance(barred, int)
            if isinstance(made, int):
                assert made < barred
            else:
                assert isinstance(made, KeyExists)
                assert made.key == bar
                assert await store.get(key) is None

    async def test_replacing_at_the_right_version_returns_a_greater_one(self, store: MetadataStore) -> None:
        first = await store.create("a", b"one")
        second = await store.replace("a", b"two", first)
        assert second > first
        assert await store.get("a") == Versioned("a", b"two", second)

    async def test_replacing_at_an_old_version_is_refused_and_changes_nothing(
        self, store: MetadataStore
    ) -> None:
        first = await store.create("a", b"one")
        second = await store.replace("a", b"two", first)
        for wrong in (first, Version(second + 1), NO_VERSION, Version(-1)):
            with pytest.raises(VersionConflict):
                await store.replace("a", b"three", wrong)
        assert await store.get("a") == Versioned("a", b"two", second)

    async def test_a_version_is_that_of_one_change_even_if_another_has_the_same_revision(
        self, store: MetadataStore
    ) -> None:
        for begins in (b"id", b"id\xff", b"\xff\xffid\xff\xff", b"n" * VERSION_BEGINS_BYTES):
            key, goes_on = f"key-{begins.hex()}", begins + b"\0"
            version = await store.create(key, goes_on)
            version = await store.replace(key, begins + b"\xff\xff more", Version(version, goes_on))
            version = await store.replace(key, b"another", Version(version, goes_on))
            with pytest.raises(VersionConflict):
                await store.replace(key, goes_on, Version(version - 1, b"another"))
            for other in (begins, begins[:-1], begins[:-1] + b"\x10 more", b"", b"\xff" * 9):
                version = await store.replace(key, other, version)
                of_another_change = Version(version, goes_on)
                with pytest.raises(VersionConflict):
                    await store.replace(key, goes_on, of_another_change)
                with pytest.raises(VersionConflict):
                    await store.delete(key, of_another_change)
                assert await store.get(key) == Versioned(key, other, version)
        with pytest.raises(NoSuchKey):
            await store.replace("none", b"one", Version(1, b"id"))

    async def test_every_version_that_a_store_returns_is_that_of_one_change(
        self, store: MetadataStore
    ) -> None:
        begins = b"first bytes"
        created = await store.create("a", begins + b"1")
        async with aclosing(store.watch("a", after_revision=created - 1)) as events:
            event = await anext(events)
        replaced = await store.replace("a", begins + b"2", created)
        read = await store.get("a")
        (listed,) = (await store.list_page("a")).items
        assert read is not None
        versions = created, event.version, replaced, read.version, listed.version
        assert [one.begins for one in versions] == [begins] * len(versions)
        assert copy.deepcopy(created).begins == pickle.loads(pickle.dumps(created)).begins == begins

    async def test_replacing_a_missing_key_is_refused_and_makes_none(self, store: MetadataStore) -> None:
        for version in (Version(1), NO_VERSION):
            with pytest.raises(NoSuchKey):
                await store.replace("a", b"one", version)
        assert await store.get("a") is None

    async def test_deleting_at_the_right_version_removes_the_key(self, store: MetadataStore) -> None:
        await store.delete("a", await store.create("a", b"one"))
        assert await store.get("a") is None

    async def test_deleting_at_a_wrong_version_is_refused_and_changes_nothing(
        self, store: MetadataStore
    ) -> None:
        first = await store.create("a", b"one")
        second = await store.replace("a", b"two", first)
        for wrong in (first, Version(second + 1), NO_VERSION):
            with pytest.raises(VersionConflict):
                await store.delete("a", wrong)
        assert await store.get("a") == Versioned("a", b"two", second)

    async def test_a_key_is_not_deleted_while_another_one_bars_it(self, store: MetadataStore) -> None:
        version, barring = await store.create("a", b"one"), await store.create("bar", b"")
        with pytest.raises(KeyExists) as refused:
            await store.delete("a", version, unless="bar")
        assert refused.value.key == "bar"
        assert await store.get("a") == Versioned("a", b"one", version)
        await store.delete("bar", barring)
        await store.delete("a", version, unless="bar")
        assert await store.get("a") is None

    async def test_deleting_a_missing_key_is_refused(self, store: MetadataStore) -> None:
        for version in (Version(1), NO_VERSION):
            with pytest.raises(NoSuchKey):
                await store.delete("a", version)

    async def test_a_refused_change_moves_no_revision(self, store: MetadataStore) -> None:
        version = await store.create("a", b"one")
        with pytest.raises(KeyExists):
            await store.create("a", b"two")
        with pytest.raises(VersionConflict):
            await store.replace("a", b"two", Version(version + 1))
        with pytest.raises(NoSuchKey):
            await store.delete("b", version)
        assert (await store.list_page("")).revision == version

    async def test_versions_rise_over_all_keys_and_over_deletion(self, store: MetadataStore) -> None:
        versions = [await store.create("a", b"1"), await store.create("b", b"1")]
        versions.append(await store.replace("a", b"2", versions[0]))
        await store.delete("a", versions[2])
        versions.append(await store.create("a", b"3"))
        assert versions == sorted(set(versions))
        with pytest.raises(VersionConflict):
            await store.replace("a", b"4", versions[2])

    async def test_a_value_of_the_largest_size_is_kept_and_a_larger_one_refused(
        self, store: MetadataStore
    ) -> None:
        version = await store.create("a", b"x" * VALUE_BYTES_MAX)
        with pytest.raises(ValueTooLarge):
            await store.replace("a", b"y" * (VALUE_BYTES_MAX + 1), version)
        with pytest.raises(ValueTooLarge):
            await store.create("b", b"y" * (VALUE_BYTES_MAX + 1))
        assert await store.get("a") == Versioned("a", b"x" * VALUE_BYTES_MAX, version)
        assert await store.get("b") is None

    async def test_two_stores_on_the_same_data_see_each_others_changes(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        first = await store.create("a", b"one")
        assert await other.get("a") == Versioned("a", b"one", first)
        second = await other.replace("a", b"two", first)
        assert await store.get("a") == Versioned("a", b"two", second)
        with pytest.raises(VersionConflict):
            await store.delete("a", first)

    async def test_increments_by_many_tasks_are_all_counted(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        await store.create("counter", b"0")

        async def many(store: MetadataStore) -> None:
            for _ in range(INCREMENTS_PER_TASK):
                await increment(store, "counter")

        async with asyncio.TaskGroup() as tasks:
            for i in range(TASKS):
                tasks.create_task(many(store if i % 2 else other))
        found = await other.get("counter")
        assert found is not None
        assert int(found.value) == TASKS * INCREMENTS_PER_TASK

    async def test_of_many_creators_of_one_key_exactly_one_wins(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        creations = [(store if i % 2 else other).create("a", b"%d" % i) for i in range(TASKS)]
        results = await asyncio.gather(*creations, return_exceptions=True)
        winners = [i for i, result in enumerate(results) if not isinstance(result, KeyExists)]
        assert len(winners) == 1
        assert await store.get("a") == Versioned("a", b"%d" % winners[0], results[winners[0]])  # type: ignore[arg-type]

    # Listing

    async def test_an_empty_listing_is_one_empty_page(self, store: MetadataStore) -> None:
        page = await store.list_page("a/")
        assert (page.items, page.next_after) == ((), None)

    async def test_a_listing_has_values_versions_and_the_revision(self, store: MetadataStore) -> None:
        first = await store.create("a/1", b"one")
        second = await store.create("a/2", b"two")
        page = await store.list_page("a/")
        assert page.items == (Versioned("a/1", b"one", first), Versioned("a/2", b"two", second))
        assert page.revision == second

    async def test_a_listing_keeps_to_its_prefix_and_to_key_order(self, store: MetadataStore) -> None:
        for key in ("b", "a/10", "ab", "a/2", "a", "a0", "a/1", "a/é", "a/", "A/1"):
            await store.create(key, b"")
        assert await keys_in_pages(store, "a/", 100) == [["a/", "a/1", "a/10", "a/2", "a/é"]]
        assert await keys_in_pages(store, "a/1", 100) == [["a/1", "a/10"]]
        everything = ["A/1", "a", "a/", "a/1", "a/10", "a/2", "a/é", "a0", "ab", "b"]
        assert await keys_in_pages(store, "", 100) == [everything]

    async def test_pages_hold_each_key_once_also_when_the_last_page_is_full(
        self, store: MetadataStore
    ) -> None:
        for i in range(1, 8):
            await store.create(f"k/{i}", b"")
            keys = [f"k/{j}" for j in range(1, i + 1)]
            assert await keys_in_pages(store, "k/", 3) == [keys[j : j + 3] for j in range(0, i, 3)]

    async def test_the_first_keys_of_a_listing_are_had_however_many_pages_they_take(
        self, store: MetadataStore
    ) -> None:
        names = [f"k/{i:04}" for i in range(PAGE_KEYS_MAX)]
        for start in range(0, PAGE_KEYS_MAX, 100):
            await asyncio.gather(*(store.create(key, b"") for key in names[start : start + 100]))
        whole = await list_some(store, "k/")
        assert ([item.key for item in whole.items], whole.next_after) == (names, None)
        await store.create("k/9999", b"")
        first = await list_some(store, "k/")
        assert ([item.key for item in first.items], first.next_after) == (names, names[-1])
        rest = await list_some(store, "k/", after=first.next_after)
        assert ([item.key for item in rest.items], rest.next_after) == (["k/9999"], None)

    async def test_a_listing_goes_on_after_a_key_that_was_deleted(self, store: MetadataStore) -> None:
        versions = {key: await store.create(key, b"") for key in ("k/1", "k/2", "k/3")}
        first = await store.list_page("k/", limit=2)
        assert first.next_after == "k/2"
        await store.delete("k/2", versions["k/2"])
        rest = await store.list_page("k/", after=first.next_after, limit=2)
        assert [item.key for item in rest.items] == ["k/3"]

    async def test_after_may_be_any_text_inside_or_outside_the_prefix(self, store: MetadataStore) -> None:
        for key in ("b/1", "k/1", "k/3", "l/1"):
            await store.create(key, b"")

        async def listed(after: str) -> list[str]:
            return [item.key for item in (await store.list_page("k/", after=after)).items]

        assert await listed("k/2") == ["k/3"]
        assert await listed("a") == ["k/1", "k/3"]
        assert await listed("z") == []

    # Watching

    async def test_a_watch_shows_every_change_under_its_prefix_in_order(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        start = (await store.list_page("")).revision
        async with watching(store, "a/", start) as events:
            first = await other.create("a/1", b"one")
            await other.create("b/1", b"elsewhere")
            await store.create("ab", b"elsewhere")
            second = await store.replace("a/1", b"two", first)
            await other.delete("a/1", second)
            third = await other.create("a/2", b"three")
            seen = await take(4, events)
        assert seen == [
            WatchEvent(EventKind.PUT, "a/1", b"one", first),
            WatchEvent(EventKind.PUT, "a/1", b"two", second),
            WatchEvent(EventKind.DELETE, "a/1", b"", seen[2].revision),
            WatchEvent(EventKind.PUT, "a/2", b"three", third),
        ]
        assert second < seen[2].revision < third

    async def test_a_watch_resumes_after_the_revision_it_is_given(self, store: MetadataStore) -> None:
        versions = [await store.create(f"a/{i}", b"") for i in range(5)]
        for i in range(4):
            async with watching(store, "a/", versions[i]) as events:
                assert [event.revision for event in await take(4 - i, events)] == versions[i + 1 :]

    async def test_a_watch_from_the_revision_of_a_listing_misses_nothing(self, store: MetadataStore) -> None:
        await store.create("a/1", b"")
        page = await store.list_page("a/")
        version = await store.create("a/2", b"")
        async with watching(store, "a/", page.revision) as events:
            assert await anext(events) == WatchEvent(EventKind.PUT, "a/2", b"", version)

    async def test_a_watch_from_now_shows_only_what_comes_after(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        before = await other.create("a", b"before")
        async with watching(store, "a") as events:
            first = asyncio.ensure_future(anext(events))
            try:
                version = before
                while not first.done():  # nobody can see when the watch is in place, so it is tried
                    version = await other.replace("a", b"after", version)
                    await asyncio.wait([first], timeout=0.1)
                assert first.result().value == b"after"
                assert first.result().revision > before
            finally:
                await cancel(first)

    async def test_a_waiting_watch_hears_of_a_change_by_another_store(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        start = await store.create("a", b"one")
        async with watching(store, "a", start) as events:
            second = await other.replace("a", b"two", start)
            assert (await anext(events)).revision == second
            waiting = asyncio.ensure_future(anext(events))
            third = await other.replace("a", b"three", second)
            assert (await waiting) == WatchEvent(EventKind.PUT, "a", b"three", third)

    async def test_many_changes_are_watched_without_gap_or_repeat(self, store: MetadataStore) -> None:
        versions = [await store.create("a", b"0")]
        async with watching(store, "a", versions[0]) as events:
            reading = asyncio.ensure_future(take(200, events))
            for i in range(200):
                versions.append(await store.replace("a", b"%d" % i, versions[-1]))
            assert [event.revision for event in await reading] == versions[1:]

    async def test_a_watch_from_a_revision_that_the_store_has_not_says_so(self, store: MetadataStore) -> None:
        """It went back to an older copy of itself: it would be silent until it had come so far again."""
        last = await store.create("a", b"one")
        async with watching(store, "a", last + 1000) as events:
            with pytest.raises(WatchCompacted):
                await anext(events)

    async def test_a_watch_whose_history_is_gone_says_so(self, store: MetadataStore) -> None:
        first = await store.create("a", b"one")
        await store.replace("a", b"two", first)
        await self.forget_history(store, "a")
        async with watching(store, "a", first) as events:
            with pytest.raises(WatchCompacted) as gone:
                await anext(events)
        assert gone.value.from_revision == first

    async def test_after_compaction_list_and_watch_goes_on(self, store: MetadataStore) -> None:
        await store.create("a", b"one")
        await self.forget_history(store, "a")
        page = await store.list_page("a")
        version = await store.replace("a", b"last", page.items[0].version)
        async with watching(store, "a", page.revision) as events:
            assert await anext(events) == WatchEvent(EventKind.PUT, "a", b"last", version)

    # Leases

    async def test_keys_of_a_lease_that_is_not_kept_vanish_and_a_watch_hears_it(
        self, store: MetadataStore
    ) -> None:
        lease = await store.grant_lease(self.ttl_seconds)
        await store.create("a/1", b"one", lease=lease)
        last = await store.create("a/2", b"two", lease=lease)
        async with watching(store, "a/", last) as events:
            gone = await take(2, events)
        assert [(event.kind, event.key, event.value) for event in gone] == [
            (EventKind.DELETE, "a/1", b""),
            (EventKind.DELETE, "a/2", b""),
        ]
        assert await store.get("a/1") is None
        assert (await store.list_page("a/")).items == ()
        assert await store.create("a/1", b"again") > gone[1].revision

    async def test_a_lost_lease_can_neither_be_kept_nor_hold_new_keys(self, store: MetadataStore) -> None:
        lease = await store.grant_lease(self.ttl_seconds)
        last = await store.create("a", b"one", lease=lease)
        async with watching(store, "a", last) as events:
            await anext(events)
        with pytest.raises(LeaseLost) as lost:
            await store.keep_lease(lease)
        assert lost.value.lease_id == lease.lease_id
        with pytest.raises(LeaseLost):
            await store.create("b", b"one", lease=lease)
        assert await store.get("b") is None
        await store.revoke_lease(lease)

    async def test_a_lease_tells_how_long_it_still_runs(self, store: MetadataStore) -> None:
        lease = await store.grant_lease(60)
        await store.create("a", b"", lease=lease)
        await store.create("b", b"")
        left = await store.lease_left("a")
        assert left is not None and 30 < left <= 60
        assert await store.lease_left("b") is None
        assert await store.lease_left("c") is None
        await store.revoke_lease(lease)
        assert await store.lease_left("a") is None

    async def test_revoking_a_lease_deletes_its_keys_at_once_and_no_others(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        lease, second_lease = await store.grant_lease(60), await store.grant_lease(60)
        await store.create("a", b"", lease=lease)
        await store.create("b", b"", lease=second_lease)
        last = await store.create("c", b"")
        await store.revoke_lease(lease)
        assert [item.key for item in (await other.list_page("")).items] == ["b", "c"]
        async with watching(other, "", last) as events:
            event = await anext(events)
        assert (event.kind, event.key) == (EventKind.DELETE, "a")
        await store.revoke_lease(lease)
        with pytest.raises(LeaseLost):
            await store.keep_lease(lease)

    async def test_a_lease_that_is_kept_outlives_its_time(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        lease = await store.grant_lease(self.ttl_seconds)
        version = await store.create("a", b"", lease=lease)
        clock = asyncio.get_running_loop().time
        end = clock() + 2.5 * lease.ttl_seconds
        while clock() < end:  # time has to pass here: it is what the test is about
            await asyncio.sleep(lease.ttl_seconds / 5)
            await store.keep_lease(lease)
        assert await other.get("a") == Versioned("a", b"", version)

    async def test_a_replaced_key_stays_under_its_lease(self, store: MetadataStore) -> None:
        lease = await store.grant_lease(60)
        version = await store.create("a", b"one", lease=lease)
        await store.replace("a", b"two", version)
        await store.revoke_lease(lease)
        assert await store.get("a") is None

    async def test_a_key_deleted_and_created_without_the_lease_outlives_it(
        self, store: MetadataStore
    ) -> None:
        lease = await store.grant_lease(60)
        await store.delete("a", await store.create("a", b"one", lease=lease))
        version = await store.create("a", b"two")
        await store.revoke_lease(lease)
        assert await store.get("a") == Versioned("a", b"two", version)

    async def test_leases_are_never_the_same_lease(self, store: MetadataStore) -> None:
        first = await store.grant_lease(60)
        await store.revoke_lease(first)
        second = await store.grant_lease(60)
        assert first.lease_id != second.lease_id
        assert second.ttl_seconds >= 60

    # Closing

    async def test_a_closed_store_refuses_every_call_and_closes_twice(self, store: MetadataStore) -> None:
        await store.create("a", b"one")
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.get("a")
        with pytest.raises(StoreUnavailable):
            await store.create("b", b"")
        with pytest.raises(StoreUnavailable):
            await store.health()

    async def test_a_store_tells_what_it_is(self, store: MetadataStore) -> None:
        health = await store.health()
        assert health.kind and health.size_bytes >= 0

    async def test_closing_a_store_ends_its_waiting_watches(self, store: MetadataStore) -> None:
        version = await store.create("a", b"one")
        async with watching(store, "a", version - 1) as events:
            await anext(events)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.wait([waiting], timeout=0.2)
            assert not waiting.done()
            await store.close()
            with pytest.raises(StoreUnavailable):
                await waiting

    async def test_closing_one_store_leaves_the_other_working(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        version = await store.create("a", b"one")
        await store.close()
        assert await other.get("a") == Versioned("a", b"one", version)
