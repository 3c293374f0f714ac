"""An acceptor's records in a store: compare-and-swap, settled when answers are lost, listed in order."""

from __future__ import annotations

import pytest

from metadata.errors import BadRecord, OutcomeUnknown
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import JournalStore, list_journals
from metadata.store import PAGE_KEYS_MAX, MetadataStore
from metadata.version import Version
from tests.support.faulty_store import FaultyStore
from tests.support.present import there


def segment(start: int, ledger_id: int = 7) -> FinalizedSegment:
    return FinalizedSegment(start, start + 2, ledger_id, -63, 1, 0)


async def starts(journal: JournalStore) -> list[int]:
    return [found.segment.start_txid async for found in journal.list_segments()]


async def test_a_state_is_swapped_only_for_the_one_that_was_read(store: MetadataStore) -> None:
    mine, other = JournalStore(store, "ns1", "a"), JournalStore(store, "ns1", "a")
    assert await mine.read_state() is None
    first = there(await mine.swap_state(JournalState(last_promised_epoch=1), None))
    assert await other.swap_state(JournalState(last_promised_epoch=9), None) is None
    found = await other.read_state()
    assert found == first
    second = there(await other.swap_state(JournalState(last_promised_epoch=2), first.version))
    assert await mine.swap_state(JournalState(last_promised_epoch=3), first.version) is None
    assert await mine.read_state() == second


async def test_a_state_that_is_gone_is_not_made_anew_by_a_swap(store: MetadataStore) -> None:
    journal = JournalStore(store, "ns1", "a")
    assert await journal.swap_state(JournalState(), Version(5)) is None
    assert await journal.read_state() is None


async def test_acceptors_and_journals_do_not_share_anything(store: MetadataStore) -> None:
    for journal_id, acceptor in (("ns1", "a"), ("ns1", "ab"), ("ns1", "b"), ("ns10", "a")):
        journal = JournalStore(store, journal_id, acceptor)
        assert await journal.read_state() is None
        await journal.swap_state(JournalState(), None)
        assert await starts(journal) == []
        await journal.put_segment(segment(1), None)
    assert [found async for found in list_journals(store)] == [
        ("ns1", "a"),
        ("ns1", "ab"),
        ("ns1", "b"),
        ("ns10", "a"),
    ]


async def test_segments_are_stored_once_replaced_by_version_and_deleted_as_found(
    store: MetadataStore,
) -> None:
    journal = JournalStore(store, "ns1", "a")
    assert await journal.read_segment(1) is None
    assert await journal.put_segment(segment(1), None)
    assert not await journal.put_segment(segment(1, 8), None)
    old = there(await journal.read_segment(1))
    assert old.segment == segment(1)
    assert await journal.put_segment(segment(1, 8), old.version)
    assert not await journal.put_segment(segment(1, 9), old.version)
    await journal.delete_segment(old)  # changed since: left as it is
    new = there(await journal.read_segment(1))
    assert new.segment.ledger_id == 8
    await journal.delete_segment(new)
    await journal.delete_segment(new)
    assert await journal.read_segment(1) is None


async def test_all_segments_are_listed_in_the_order_of_their_txids_over_many_pages() -> None:
    store = MemoryStore(MemoryData())
    journal = JournalStore(store, "ns1", "a")
    await journal.swap_state(JournalState(), None)
    wanted = [3**9 * n + 1 for n in range(PAGE_KEYS_MAX + 10)]
    for start in reversed(wanted):
        await journal.put_segment(segment(start), None)
    assert await starts(journal) == wanted
    assert [found async for found in list_journals(store)] == [("ns1", "a")]


async def test_damaged_records_are_named_by_their_keys(store: MetadataStore) -> None:
    journal = JournalStore(store, "ns1", "a")
    await store.create("journals/ns1/a/state", b"hello")
    await store.create("journals/ns1/a/segments/0000000000000001", b"hello")
    with pytest.raises(BadRecord, match="journals/ns1/a/state"):
        await journal.read_state()
    with pytest.raises(BadRecord, match="journals/ns1/a/segments/0000000000000001"):
        await journal.read_segment(1)
    with pytest.raises(BadRecord):
        await starts(journal)


async def test_a_write_whose_answer_was_lost_is_known_by_its_nonce() -> None:
    store, lost = FaultyStore(), OutcomeUnknown("the answer was lost")
    journal = JournalStore(store, "ns1", "a")
    store.fail(lost, bad=1, done=True)
    stored = there(await journal.swap_state(JournalState(last_promised_epoch=1), None))
    for epoch in range(2, 6):
        store.fail(lost, bad=1, done=True)
        stored = there(await journal.swap_state(JournalState(last_promised_epoch=epoch), stored.version))
    assert await journal.read_state() == stored
    store.fail(lost, bad=1, done=True)
    assert await journal.put_segment(segment(1), None)
    assert store.failures == 6


async def test_two_equal_changes_by_two_processes_are_told_apart() -> None:
    journal = JournalStore(MemoryStore(MemoryData()), "ns1", "a")
    state = JournalState(last_promised_epoch=1)
    assert await journal.swap_state(state, None) is not None
    assert await journal.swap_state(state, None) is None
