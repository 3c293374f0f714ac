"""The records of logs in a store: names, compare-and-swap, and pages found by position and time in few look-ups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata import keys
from metadata.backup import hold
from metadata.errors import MetadataRestored, VersionConflict
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment import Segment
from metadata.store import MetadataStore
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

A, B = b"a" * 16, b"b" * 16
LOG = LogRecord(A, "orders")


@pytest.fixture
def logs(store: MetadataStore) -> LogStore:
    return LogStore(store)


def segment(n: int) -> Segment:
    """Ten records and ten microseconds each."""
    return Segment(n, 10 * n, 1, 10 * n + 1, 10 * n + 10, 10 * n + 10, 100)


async def test_a_name_leads_to_one_log_and_is_free_again_when_that_is_deleted(logs: LogStore) -> None:
    first = await logs.create(LOG)
    second = await logs.create(LogRecord(B, "orders"))
    assert await logs.named("orders") is None
    assert await logs.give_name("orders", A)
    assert await logs.give_name("orders", A), "done twice it is done"
    assert not await logs.give_name("orders", B)
    await logs.take_name("orders", A)
    assert await logs.named("orders") == first, "a log's name is not taken from it"
    await logs.change(first.record.given_up(), first.version)
    assert await logs.give_name("orders", B)
    await logs.take_name("orders", A)
    assert [log async for log in logs.by_name()] == [second]
    await logs.change(second.record.given_up(), second.version)
    await logs.take_name("orders", B)
    assert await logs.named("orders") is None


async def test_a_name_is_not_taken_from_a_log_while_the_metadata_may_be_an_older_copy_in_which_it_has_it(
    logs: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that renames a log has read that it has the new name, and then the store goes back."""
    made, read = await logs.create(LOG), LogStore.read
    await logs.give_name("orders", A)
    await logs.change(made.record.to_be_named("sales").named(), made.version)

    async def before_it_goes_back(self: LogStore, identity: bytes) -> VersionedLog | None:
        found = await read(self, identity)
        await hold.begin(self.store, backup_ms=1, now_ms=1)
        return found

    monkeypatch.setattr(LogStore, "read", before_it_goes_back)
    await logs.take_name("orders", A)
    assert await logs.store.get(keys.log_name("orders")) is not None
    await hold.accept(logs.store)
    monkeypatch.undo()
    await logs.take_name("orders", A)
    assert await logs.store.get(keys.log_name("orders")) is None


async def test_a_log_has_its_old_name_until_its_record_says_the_new_one(logs: LogStore) -> None:
    made = await logs.create(LOG)
    assert await logs.give_name("orders", A)
    noted = await logs.change(made.record.to_be_named("sales"), made.version)
    assert await logs.give_name("sales", A)
    assert [log async for log in logs.by_name()] == [noted]
    assert await logs.named("sales") is None
    renamed = await logs.change(noted.record.named(), noted.version)
    assert [log async for log in logs.by_name()] == [renamed]
    assert await logs.named("orders") is None
    other = await logs.create(LogRecord(B, "orders"))
    assert await logs.give_name("orders", B), "it is free"
    assert await logs.named("orders") == other


async def test_whoever_wants_a_name_that_a_log_is_to_get_takes_that_back(logs: LogStore) -> None:
    made = await logs.create(LOG)
    noted = await logs.change(made.record.to_be_named("sales"), made.version)
    assert await logs.give_name("sales", A)
    await logs.create(LogRecord(B, "sales"))
    assert await logs.give_name("sales", B)
    with pytest.raises(VersionConflict):
        await logs.change(noted.record.named(), noted.version)
    found = await logs.read(A)
    assert found is not None and not found.record.next_name


async def test_a_record_is_changed_only_where_it_was_read(logs: LogStore) -> None:
    made = await logs.create(LOG)
    changed = await logs.change(made.record.taken_over("w"), made.version)
    with pytest.raises(VersionConflict):
        await logs.change(made.record.taken_over("v"), made.version)
    assert await logs.read(A) == changed
    assert await logs.read(B) is None
    assert [log async for log in logs.records()] == [changed]
    gone = await logs.change(changed.record.given_up(), changed.version)
    await logs.forget(gone)
    assert await logs.read(A) is None


async def test_a_page_is_found_by_any_of_its_positions_and_times(logs: LogStore) -> None:
    pages = [tuple(map(segment, range(start, start + 3))) for start in (0, 3, 6)]
    for page in pages:
        await logs.put_page(A, page)
        await logs.put_page(A, page)
    await logs.put_page(B, pages[0])
    for position in range(90):
        found = there(await logs.page_of(A, position))
        assert found.segments == pages[position // 30]
    for time_us, n in [(0, 0), (30, 0), (31, 1), (60, 1), (61, 2), (90, 2)]:
        found = there(await logs.page_of_time(A, time_us))
        assert found.segments == pages[n]
    assert await logs.page_of(A, 90) is None
    assert await logs.page_of_time(A, 91) is None
    first = there(await logs.page_of(A, 0))
    await logs.store.delete(first.key, first.version)  # as where a slow writer wrote what finds it later
    found = there(await logs.page_of_time(A, 0))
    assert found.segments == pages[1]
    async for found in logs.pages(A):
        await logs.drop_page(A, found)
    assert await logs.page_of(A, 0) is None
    assert await logs.page_of_time(A, 0) is None
    assert await logs.page_of(B, 0) is not None


async def test_a_log_is_found_in_a_thousand_pages_with_as_few_look_ups_as_in_one() -> None:
    store = FaultyStore()
    logs = LogStore(store)
    for n in range(1000):
        await logs.put_page(A, (segment(n),))
    store.calls.clear()
    await logs.page_of(A, 5555)
    assert store.calls == {"list_page": 1}
    await logs.page_of_time(A, 5555)
    assert store.calls == {"list_page": 2, "get": 1}


async def test_no_log_is_made_while_restored_metadata_is_not_accepted(logs: LogStore) -> None:
    await logs.store.create("restored", b"")
    with pytest.raises(MetadataRestored):
        await logs.create(LOG)


async def test_watching_a_record_tells_each_change_and_its_end(logs: LogStore) -> None:
    made = await logs.create(LOG)
    changed = await logs.change(made.record.taken_over("w"), made.version)
    gone = await logs.change(replace(changed.record, deleted=True), changed.version)
    await logs.forget(gone)
    watched = logs.watch(A, after_revision=made.version)
    assert [await anext(watched) for _ in range(3)] == [changed, gone, None]
    await watched.aclose()
