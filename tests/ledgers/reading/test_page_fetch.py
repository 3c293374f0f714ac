"""Fetching a page from bookies that are slow, down, or no longer those of the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable, EntryUnreadable, NoSuchEntry
from ledgers.reading import page_fetch
from ledgers.reading.read_handle import ReadHandle
from ledgers.tasks import STOPPED_SECONDS
from metadata.records.ledger_record import BookieRef, Fragment
from tests.ledgers.reading.reading import (
    BK0,
    BK1,
    BK2,
    BK3,
    DIGEST,
    KEY,
    DictionaryBookies,
    reader_of,
    record_of,
    until_idle,
    with_fragments,
)
from tests.ledgers.writing.test_progress_timeout import LeapingLoop, on_leaping_loop
from tests.support.present import there

QUICK = ClientConfig(speculative_read_seconds=0.02)

Answer = Callable[[BookieRef], Awaitable[None]]


def silent(*bookies: BookieRef, cancelled: list[BookieRef] | None = None) -> Answer:
    """These bookies never answer."""

    async def before_answer(bookie: BookieRef) -> None:
        if bookie in bookies:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if cancelled is not None:
                    cancelled.append(bookie)
                raise

    return before_answer


def down(*bookies: BookieRef) -> Answer:
    async def before_answer(bookie: BookieRef) -> None:
        if bookie in bookies:
            raise BookieUnavailable(str(bookie), "timeout")

    return before_answer


async def test_a_read_does_not_wait_for_a_silent_bookie_and_ends_its_call() -> None:
    cancelled: list[BookieRef] = []
    bookies = DictionaryBookies([10] * 20, before_answer=silent(BK0, BK1, cancelled=cancelled))
    reader, _ = await reader_of(bookies, config=QUICK)
    assert (await reader.read_entry(5)).entry_id == 5
    assert [bookie for bookie, _ in bookies.asked] == [BK0, BK1, BK2]
    assert sorted(cancelled, key=str) == [BK0, BK1]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_bookie_that_was_slow_is_asked_last_by_other_readers_of_the_client_too() -> None:
    """Else a job over many small ledgers would wait for a hung bookie at each of them."""
    bookies = DictionaryBookies([10] * 20, before_answer=silent(BK0))
    reader, ledgers = await reader_of(bookies, config=QUICK)
    await reader.read_entry(5)
    bookies.asked.clear()
    other = ReadHandle(reader._view.cluster, there(await ledgers.read(reader.ledger_id)), DIGEST, KEY)
    await other.read_entry(5)
    assert [bookie for bookie, _ in bookies.asked] == [BK1]


def test_no_bookie_is_called_slow_for_time_in_which_this_process_stood_still() -> None:
    """Its answer has come meanwhile, and is only to be read."""
    patient = ClientConfig(speculative_read_seconds=5)

    async def scenario(loop: LeapingLoop) -> None:
        async def answers_while_we_are_stopped(_: BookieRef) -> None:
            loop.leapt += 5 + 2 * STOPPED_SECONDS
            for _turn in range(5):
                await asyncio.sleep(0)

        bookies = DictionaryBookies([10] * 20, before_answer=answers_while_we_are_stopped)
        reader, _ = await reader_of(bookies, config=patient)
        assert (await reader.read_entry(5)).entry_id == 5
        assert [bookie for bookie, _ in bookies.asked] == [BK0]
        assert not reader._view.cluster.slow_or_failed_lately()

    on_leaping_loop(scenario)


async def test_readers_turn_to_the_next_bookie_after_so_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """All share the work of a long range, and each reads a long run from its disk."""
    monkeypatch.setattr(page_fetch, "ENTRIES_A_TURN", 8)
    bookies = DictionaryBookies([10] * 40)
    reader, _ = await reader_of(bookies)
    for entry_id in range(32):
        await reader.read_entry(entry_id)
    assert [bookie for bookie, _ in bookies.asked] == [BK0] * 8 + [BK1] * 8 + [BK2] * 8 + [BK0] * 8


@pytest.mark.parametrize("off", [0, None])
async def test_speculation_can_be_switched_off(off: float | None) -> None:
    bookies = DictionaryBookies([10] * 20, before_answer=silent(BK0))
    reader, _ = await reader_of(bookies, config=ClientConfig(speculative_read_seconds=off))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await reader.read_entry(5)
    assert [bookie for bookie, _ in bookies.asked] == [BK0]


async def test_a_call_that_a_closing_connection_cancelled_counts_as_failed_and_not_as_ours() -> None:
    async def cut(bookie: BookieRef) -> None:
        if bookie == BK0:
            raise asyncio.CancelledError

    bookies = DictionaryBookies([10] * 20, before_answer=cut)
    reader, _ = await reader_of(bookies)
    assert (await reader.read_entry(5)).entry_id == 5
    assert [bookie for bookie, _ in bookies.asked] == [BK0, BK1]


async def test_what_another_bookie_gives_in_place_of_one_that_failed_is_the_whole_page() -> None:
    bookies = DictionaryBookies([10] * 20, before_answer=down(BK0))
    reader, _ = await reader_of(bookies)
    batch = await reader.read_batch(3, entries_max=9, bytes_max=999)
    assert [entry.entry_id for entry in batch] == list(range(3, 12))
    assert [bookie for bookie, _ in bookies.asked] == [BK0, BK1]


async def test_an_entry_that_no_bookie_known_of_has_is_looked_for_where_the_metadata_now_says() -> None:
    bookies = DictionaryBookies([10] * 20, before_answer=down(BK0, BK1, BK2))
    reader, ledgers = await reader_of(bookies, record_of(bookies, closed=False))
    with pytest.raises(EntryUnreadable, match="timeout"):
        await reader.read_entry(12)
    await with_fragments(ledgers, Fragment(0, (BK0, BK1, BK2)), Fragment(10, (BK3, BK1, BK2)))
    assert (await reader.read_entry(12)).entry_id == 12


async def test_a_page_is_never_asked_for_past_the_end_of_its_fragment() -> None:
    bookies = DictionaryBookies([10] * 20)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2)), Fragment(10, (BK3, BK1, BK2)))
    reader, _ = await reader_of(bookies, record)
    assert [e.entry_id for e in await reader.read_batch(8, entries_max=9, bytes_max=999)] == [*range(8, 17)]
    assert [(request.first_entry, request.last_entry) for _, request in bookies.asked] == [
        (8, 9),
        (10, 16),
    ]


# --- batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "entries_max", "bytes_max", "ids"),
    [
        (0, 5, 10_000, range(5)),
        (3, 100, 500, range(3, 8)),
        (3, 100, 599, range(3, 8)),
        (3, 100, 1, range(3, 4)),
        (97, 10, 10_000, range(97, 100)),
        (99, 1, 1, range(99, 100)),
    ],
)
async def test_a_batch_is_the_run_that_both_bounds_allow_and_at_least_one_entry(
    first: int, entries_max: int, bytes_max: int, ids: range
) -> None:
    reader, _ = await reader_of(DictionaryBookies([100] * 100))
    batch = await reader.read_batch(first, entries_max=entries_max, bytes_max=bytes_max)
    assert [entry.entry_id for entry in batch] == list(ids)


async def test_a_batch_larger_than_a_page_is_filled_from_several() -> None:
    reader, _ = await reader_of(DictionaryBookies([1_000_000] * 30))
    batch = await reader.read_batch(0, entries_max=100, bytes_max=20_000_000)
    assert len(batch) == 20


async def test_a_batch_ends_before_an_entry_that_cannot_be_read_and_cannot_begin_with_it() -> None:
    reader, _ = await reader_of(DictionaryBookies([10] * 9, lacking={b: {4} for b in (BK0, BK1, BK2)}))
    assert [e.entry_id for e in await reader.read_batch(1, entries_max=9, bytes_max=999)] == [1, 2, 3]
    with pytest.raises(EntryUnreadable, match="entry 4"):
        await reader.read_batch(4, entries_max=9, bytes_max=999)


@pytest.mark.parametrize(("entries_max", "bytes_max"), [(0, 1), (1, 0), (-1, 5)])
async def test_a_batch_of_nothing_is_refused(entries_max: int, bytes_max: int) -> None:
    reader, _ = await reader_of(DictionaryBookies([10] * 9))
    with pytest.raises(ValueError, match="at least 1 entry and 1 byte"):
        await reader.read_batch(0, entries_max=entries_max, bytes_max=bytes_max)


# --- past the last confirmed entry -------------------------------------------------------------------


async def test_nothing_past_the_last_confirmed_entry_is_read_without_saying_so() -> None:
    bookies = DictionaryBookies([10] * 9)
    reader, _ = await reader_of(bookies, record_of(bookies, closed=False))
    for read in (
        reader.read_entry(9),
        reader.read_batch(9, entries_max=1, bytes_max=1),
        anext(reader.read(3, 9)),
        anext(reader.pages(9, 9)),
    ):
        with pytest.raises(NoSuchEntry, match="no readable entry 9; its last confirmed entry is 8"):
            await read
    assert not bookies.asked


async def test_unconfirmed_entries_are_read_as_far_as_bookies_have_them() -> None:
    bookies = DictionaryBookies([10] * 9)
    reader, _ = await reader_of(bookies, record_of(bookies, closed=False))
    reader._view.last_add_confirmed = 3
    assert [entry.entry_id async for entry in reader.read_unconfirmed(2, 8)] == list(range(2, 9))
    seen: list[int] = []
    with pytest.raises(NoSuchEntry, match="no readable entry 9"):
        async for entry in reader.read_unconfirmed(2, 12):
            seen.append(entry.entry_id)
    assert seen == list(range(2, 9))
    assert reader.last_add_confirmed == 3, "reading confirms nothing"


async def test_an_unconfirmed_entry_that_a_silent_replica_may_have_is_unreadable_and_not_absent() -> None:
    bookies = DictionaryBookies([10] * 9, before_answer=down(BK2))
    reader, _ = await reader_of(bookies, record_of(bookies, closed=False))
    with pytest.raises(EntryUnreadable, match="timeout"):
        await anext(reader.read_unconfirmed(9, 9))


async def test_a_closed_ledger_has_nothing_unconfirmed() -> None:
    bookies = DictionaryBookies([10] * 9)
    reader, _ = await reader_of(bookies)
    assert len([entry async for entry in reader.read_unconfirmed(0, 8)]) == 9
    with pytest.raises(NoSuchEntry, match="no readable entry 9"):
        await anext(reader.read_unconfirmed(5, 9))
    await until_idle()
