"""Reading a range: read ahead in parallel, bounded in bytes whatever the sizes, and nothing left running."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from contextlib import aclosing

import pytest

from ledgers.config import ClientConfig
from ledgers.errors import EntryUnreadable
from ledgers.reading.read_handle import ReadHandle
from metadata.records.ledger_record import Fragment, Shape
from tests.ledgers.reading.reading import (
    BK0,
    BK1,
    BK2,
    BK3,
    PAGE_BYTES_MAX,
    DictionaryBookies,
    reader_of,
    record_of,
    until_idle,
)

KIB, MIB = 1024, 1024 * 1024
CONFIG = ClientConfig()
BOUND_BYTES = CONFIG.read_ahead_bytes_max

ADVERSARIAL = {
    "one empty entry, then large ones": [0] + [4 * MIB] * 40,
    "many empty entries, then large ones": [0] * 3000 + [4 * MIB] * 40,
    "tiny entries, then large ones": [10] * 20_000 + [4 * MIB] * 30,
    "empty and large ones in turn": [0, 4 * MIB] * 25,
    "large, then many empty ones, then large": [4 * MIB] * 10 + [0] * 2000 + [4 * MIB] * 20,
    "just over half a page each": [2 * MIB + 1] * 40,
}


async def held_at_most(reader: ReadHandle, bookies: DictionaryBookies) -> int:
    """Most bytes that bookies had given and the reader had not yet, at any time."""
    most = taken_bytes = 0
    next_entry = 0
    async with aclosing(reader.pages()) as pages:
        async for page in pages:
            assert list(page.ids) == list(range(next_entry, page.last_entry + 1))
            next_entry = page.last_entry + 1
            taken_bytes += page.size_bytes
            await until_idle()  # a slow consumer: all that is read ahead without it has come
            most = max(most, bookies.given_bytes - taken_bytes)
    assert next_entry == len(bookies.sizes)
    return most


@pytest.mark.parametrize("closed", [True, False], ids=["closed ledger", "open ledger"])
@pytest.mark.parametrize("sizes", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
async def test_what_is_read_ahead_is_bounded_in_bytes_whatever_the_sizes(
    sizes: list[int], closed: bool
) -> None:
    bookies = DictionaryBookies(sizes)
    reader, _ = await reader_of(bookies, record_of(bookies, closed=closed))
    tracemalloc.start()
    try:
        # Pages dropped for being read too far ahead would count as held: none may be either.
        assert await held_at_most(reader, bookies) <= BOUND_BYTES + bookies.given_bytes - sum_of(bookies)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < BOUND_BYTES + 4 * PAGE_BYTES_MAX, f"held {peak_bytes / MIB:.0f} MiB"


def sum_of(bookies: DictionaryBookies) -> int:
    return sum(size + 16 for size in bookies.sizes)


async def test_the_bound_counts_every_bookie_a_striped_page_is_asked_of() -> None:
    bookies = DictionaryBookies([4 * MIB] * 30)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2, BK3)), shape=Shape(4, 2, 2))
    reader, _ = await reader_of(bookies, record, ClientConfig(read_ahead_bytes_max=16 * MIB))
    assert (await held_at_most(reader, bookies), bookies.under_way_most) <= (16 * MIB, 4)


async def test_a_small_bound_still_reads_page_after_page() -> None:
    bookies = DictionaryBookies([MIB] * 10)
    reader, _ = await reader_of(bookies, config=ClientConfig(read_ahead_bytes_max=MIB))
    assert await held_at_most(reader, bookies) <= PAGE_BYTES_MAX
    assert bookies.under_way_most == 1


@pytest.mark.parametrize("size", [1, 1000, MIB, 4 * MIB])
async def test_entries_of_one_size_are_read_ahead_in_parallel_and_fetched_once(size: int) -> None:
    bookies = DictionaryBookies([size] * max(12, 12 * MIB // (size + 16) // 8))
    reader, _ = await reader_of(bookies)
    await held_at_most(reader, bookies)
    assert bookies.given_entries == len(bookies.sizes)
    if sum(bookies.sizes) > 4 * MIB:
        assert bookies.under_way_most == CONFIG.read_ahead_pages


@pytest.mark.parametrize("size", [0, 100, 10_000])
async def test_a_closed_ledger_is_asked_for_in_pages_from_the_first_on(size: int) -> None:
    """Its length tells the size of its entries before any has been read."""
    bookies = DictionaryBookies([size] * (3 * MIB // (size + 16)))
    reader, _ = await reader_of(bookies)
    async with aclosing(reader.pages()) as pages:
        await anext(pages)
    _, first = bookies.asked[0]
    asked_bytes = (first.last_entry + 1) * (size + 16)
    assert CONFIG.page_bytes <= asked_bytes < CONFIG.page_bytes + size + 16


async def test_when_entries_turn_out_larger_the_range_is_cut_anew_and_read_in_parallel_again() -> None:
    bookies = DictionaryBookies([10] * 20_000 + [4 * MIB] * 30)
    reader, _ = await reader_of(bookies, record_of(bookies, closed=False))
    async with aclosing(reader.pages()) as pages:
        async for page in pages:
            await until_idle()
            if page.last_entry == 20_005:
                break
    asked = {request.first_entry for _, request in bookies.asked}
    assert asked >= {20_006, 20_007, 20_008, 20_009}, "one after the other"


@pytest.mark.parametrize("seed", range(12))
async def test_however_sizes_and_fragments_are_mixed_every_entry_comes_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.sample([0, 10, 1000, 50_000, MIB, 4 * MIB], 3)
    sizes = [rng.choices(kinds, (5, 3, 1))[0] for _ in range(300)]
    bookies = DictionaryBookies(sizes)
    starts = sorted({0, *rng.sample(range(1, 300), rng.randrange(4))})
    fragments = [Fragment(start, tuple(rng.sample([BK0, BK1, BK2, BK3], 3))) for start in starts]
    shape = Shape(3, rng.choice([2, 3]), 2)
    record = record_of(bookies, *fragments, shape=shape, closed=rng.random() < 0.5)
    reader, _ = await reader_of(bookies, record)
    await held_at_most(reader, bookies)
    copies = 1 if shape.write_quorum == 3 else 4 / 3  # a striped page comes from two bookies
    assert bookies.given_bytes < 2.2 * copies * sum_of(bookies) + 8 * PAGE_BYTES_MAX


async def test_entries_before_one_that_no_replica_has_are_given_first() -> None:
    bookies = DictionaryBookies([100] * 5000, lacking={b: {4321} for b in (BK0, BK1, BK2)})
    reader, _ = await reader_of(bookies)
    seen: list[int] = []
    with pytest.raises(EntryUnreadable, match="entry 4321"):
        async for entry in reader.read():
            seen.append(entry.entry_id)
    assert seen == list(range(4321))


async def test_a_reader_that_stops_half_way_leaves_nothing_running() -> None:
    bookies = DictionaryBookies([1000] * 20_000)
    reader, _ = await reader_of(bookies)
    async with aclosing(reader.read()) as entries:
        await anext(entries)
    assert bookies.under_way == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_a_window_nobody_takes_any_more_is_not_left_unretrieved() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    bookies = DictionaryBookies([MIB] * 10, lacking={b: {2} for b in (BK0, BK1, BK2)})
    reader, _ = await reader_of(bookies)
    async with aclosing(reader.read()) as entries:
        await anext(entries)
        await until_idle()
    assert not complaints
