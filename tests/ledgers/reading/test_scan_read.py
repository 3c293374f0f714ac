"""Scans: while a bookie gives the very next entries; at anything else reading goes on elsewhere, and loses nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest

from bookie.wire import Columns, ReadReply, ScanRequest, Status
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable, DigestMismatch, EntryUnreadable
from ledgers.reading import scan_read
from ledgers.reading.read_handle import ReadHandle
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from tests.ledgers.reading.reading import BK0, BK1, BK2, BK3, DictionaryBookies, reader_of, record_of

ALL = frozenset({BK0, BK1, BK2, BK3})
SIZES = [1000] * 10_000
"""Ten pages."""


async def read_all(reader: ReadHandle, first: int = 0) -> list[int]:
    """Ids of the entries, in the order in which they come."""
    ids: list[int] = []
    async with aclosing(reader.pages(first)) as pages:
        async for page in pages:
            assert page.first_entry == first + len(ids)
            ids += page.ids
    return ids


async def reads_all_of(
    bookies: DictionaryBookies, record: LedgerRecord | None = None, config: ClientConfig | None = None
) -> ReadHandle:
    """A reader that was given every entry once and in order."""
    reader, _ = await reader_of(bookies, record, config)
    assert await read_all(reader) == list(range(len(bookies.sizes)))
    return reader


def scanners(bookies: DictionaryBookies) -> list[BookieRef]:
    return [bookie for bookie, _ in bookies.scanned]


async def test_a_long_range_is_one_scan_of_one_bookie_and_nobody_is_asked_for_a_page() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    await reads_all_of(bookies)
    assert (len(bookies.scanned), bookies.asked) == (1, [])
    assert bookies.given_entries == len(SIZES)
    _, request = bookies.scanned[0]
    config = ClientConfig()
    assert (request.first_entry, request.last_entry) == (0, len(SIZES) - 1)
    assert request.page_bytes == config.page_bytes
    assert request.window_bytes == config.read_ahead_pages * config.page_bytes


async def test_the_window_is_within_what_may_be_read_ahead() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    reader, _ = await reader_of(bookies, config=ClientConfig(read_ahead_bytes_max=2**20))
    await read_all(reader)
    assert [request.window_bytes for _, request in bookies.scanned] == [2**20]


async def test_what_is_not_longer_than_a_page_is_asked_for_as_a_page() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    reader, _ = await reader_of(bookies)
    assert await read_all(reader, len(SIZES) - 1000) == list(range(len(SIZES) - 1000, len(SIZES)))
    assert bookies.scanned == []


async def test_a_striped_ledger_of_which_no_bookie_has_all_is_not_scanned() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    await reads_all_of(bookies, record_of(bookies, shape=Shape(3, 2, 2)))
    assert bookies.scanned == []


async def test_bookies_share_the_work_of_a_long_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_read, "SCAN_BYTES", 2**21)
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    await reads_all_of(bookies)
    assert set(scanners(bookies)) == {BK0, BK1, BK2}
    assert bookies.given_entries == len(SIZES)


async def test_each_fragment_is_scanned_from_its_own_bookies() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    fragments = Fragment(0, (BK0,)), Fragment(3000, (BK3,)), Fragment(7000, (BK1,))
    await reads_all_of(bookies, record_of(bookies, *fragments))
    assert scanners(bookies) == [BK0, BK3, BK1]
    assert [request.last_entry for _, request in bookies.scanned] == [2999, 6999, len(SIZES) - 1]


async def test_bookies_of_an_older_program_are_asked_page_by_page() -> None:
    bookies = DictionaryBookies(SIZES, scanning=frozenset({BK3}))
    reader = await reads_all_of(bookies)
    assert bookies.scanned == [] and bookies.asked
    assert not reader._view.cluster.slow_or_failed_lately(), "nobody is blamed for it"


@pytest.mark.parametrize("lacking", [{0}, {4321}, {9_999}, set(range(5000, 10_000)), set(range(10_000))])
async def test_what_one_bookie_lacks_comes_from_another(lacking: set[int]) -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL, lacking={BK0: lacking, BK1: lacking})
    await reads_all_of(bookies)


async def test_when_each_bookie_lacks_something_else_all_of_it_is_scanned() -> None:
    lacking = {BK0: {1000, 7000}, BK1: {1001, 7001}, BK2: {1002, 7002}}
    bookies = DictionaryBookies(SIZES, scanning=ALL, lacking=lacking)
    reader, _ = await reader_of(bookies)
    assert await read_all(reader) == list(range(len(SIZES)))
    assert bookies.asked == [], "behind what one lacks another is scanned"


async def test_an_entry_that_nobody_has_is_an_error_behind_all_before_it() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL, lacking={b: {6543} for b in (BK0, BK1, BK2)})
    reader, _ = await reader_of(bookies)
    given: list[int] = []
    with pytest.raises(EntryUnreadable, match="6543"):
        async with aclosing(reader.pages()) as pages:
            async for page in pages:
                given += page.ids
    assert given == list(range(6543))


@dataclass
class Lying(DictionaryBookies):
    """From the third page on these bookies answer a scan with something else."""

    lie: str = ""
    liars: frozenset[BookieRef] = ALL

    async def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        async with aclosing(super().scan(bookie, request)) as replies:
            count = 0
            async for reply in replies:
                count += 1
                is_lie = bookie in self.liars and count >= 3
                yield self._lie(bookie, reply) if is_lie else reply

    def _lie(self, bookie: BookieRef, reply: ReadReply) -> ReadReply:
        columns = reply.columns
        match self.lie:
            case "another byte":
                broken = b"?" + bytes(columns.payload)[1:]
                return replace(reply, columns=replace(columns, payload=broken))
            case "a gap":
                return replace(reply, columns=columns.pick([0, *range(2, len(columns))]))
            case "a page twice":
                return replace(reply, columns=shifted(columns, -100))
            case "a page left out":
                return replace(reply, columns=shifted(columns, 1))
            case "short digests":
                return replace(reply, columns=replace(columns, digests=columns.digests[: 2 * len(columns)]))
            case "a refusal":
                return ReadReply(Status.UNAUTHORIZED)
            case "a failure":
                raise BookieUnavailable(str(bookie), "gone")
        raise AssertionError(self.lie)


def shifted(columns: Columns, by: int) -> Columns:
    ids = [entry_id + by for entry_id in columns.ids]
    return replace(columns, entry_ids=b"".join(n.to_bytes(8, "little") for n in ids))


LIES = ["another byte", "a gap", "a page twice", "a page left out", "short digests", "a refusal", "a failure"]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("liars", [{BK0}, {BK0, BK1}, {BK0, BK1, BK2}], ids=["one", "two", "all"])
async def test_whatever_a_scan_answers_every_entry_comes_once_as_it_was_written(
    lie: str, liars: set[BookieRef]
) -> None:
    """Where all lie in their scans, their pages are asked for."""
    bookies = Lying(SIZES, scanning=ALL, lie=lie, liars=frozenset(liars))
    reader = await reads_all_of(bookies)
    assert bool(reader._view.cluster.slow_or_failed_lately()) is (
        lie == "a failure" and bool(scanned_liars(bookies))
    )


def scanned_liars(bookies: Lying) -> set[BookieRef]:
    return set(scanners(bookies)) & bookies.liars


async def test_rot_in_every_copy_is_told_as_such() -> None:
    bookies = Rotten(SIZES, scanning=ALL)
    reader, _ = await reader_of(bookies)
    with pytest.raises(DigestMismatch):
        await read_all(reader)


class Rotten(DictionaryBookies):
    """Entry 5000 is another one on each bookie, however it is asked for."""

    def _page(self, bookie: BookieRef, request: object) -> ReadReply:
        reply = super()._page(bookie, request)  # type: ignore[arg-type]
        columns = reply.columns
        if not len(columns) or not columns.first_entry <= 5000 <= columns.last_entry:
            return reply
        at = (5000 - columns.first_entry) * 1000
        payload = bytes(columns.payload)
        broken = payload[:at] + b"?" + payload[at + 1 :]
        return replace(reply, columns=replace(columns, payload=broken))


async def test_a_silent_bookie_is_left_for_another_and_asked_last_from_then_on() -> None:
    never = asyncio.Event()
    silent: set[BookieRef] = set()

    async def answer(bookie: BookieRef) -> None:
        silent.add(silent.pop() if silent else bookie)
        if bookie in silent:
            await never.wait()

    bookies = DictionaryBookies(SIZES, scanning=ALL, before_answer=answer)
    reader = await reads_all_of(bookies, config=ClientConfig(speculative_read_seconds=0.05))
    assert len(bookies.scanned) == 2
    assert reader._view.cluster.slow_or_failed_lately() == silent
    bookies.scanned.clear()
    assert await read_all(reader) == list(range(len(SIZES)))
    assert not silent & set(scanners(bookies))


@pytest.mark.parametrize("seed", range(8))
async def test_however_sizes_gaps_and_fragments_are_mixed_every_entry_comes_once_and_in_order(
    seed: int,
) -> None:
    rng = random.Random(seed)
    sizes = [
        rng.choices([0, 10, 1000, 50_000, 2**20, 4 * 2**20 - 100], (5, 5, 5, 3, 1, 1))[0] for _ in range(400)
    ]
    lacking = {bookie: set(rng.sample(range(400), rng.choice((0, 3)))) for bookie in (BK0, BK1)}
    starts = [0, *sorted(rng.sample(range(1, 400), 2))]
    fragments = [
        Fragment(start, rng.choice(((BK0, BK1, BK2), (BK3, BK2, BK0), (BK2, BK1, BK3)))) for start in starts
    ]
    bookies = DictionaryBookies(
        sizes, scanning=frozenset(rng.sample(sorted(ALL, key=str), 3)), lacking=lacking
    )
    record = record_of(bookies, *fragments, closed=rng.random() < 0.5)
    await reads_all_of(bookies, record)


async def test_a_reader_that_leaves_half_way_ends_its_scan() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    reader, _ = await reader_of(bookies)
    async with aclosing(reader.pages()) as pages:
        await anext(pages)
    assert bookies.given_entries < 3000
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_no_bookie_can_scan_is_read_page_by_page_and_what_is_behind_it_is_scanned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan_read, "PAGES_UNSCANNED", 2)
    lacking = {BK0: {4000}, BK1: {4000}, BK2: {4001}}
    bookies = DictionaryBookies(SIZES, scanning=frozenset({BK0, BK1}), lacking=lacking)
    await reads_all_of(bookies)
    paged = [request.first_entry for _, request in bookies.asked]
    assert min(paged) == 4000 and max(paged) < 4000 + 2 * 1049
    assert bookies.scanned[-1][1].first_entry > 4000


async def test_short_fragments_are_read_page_by_page_and_long_ones_behind_them_are_scanned() -> None:
    bookies = DictionaryBookies(SIZES, scanning=ALL)
    starts = [0, 100, 200, 5000, 5100]
    record = record_of(bookies, *[Fragment(start, (BK0, BK1, BK2)) for start in starts])
    await reads_all_of(bookies, record)
    assert [request.first_entry for _, request in bookies.scanned] == [200, 5100]
    assert {request.first_entry for _, request in bookies.asked} >= {0, 100, 5000}


async def test_who_says_something_meanwhile_is_waited_for_and_blamed_for_nothing() -> None:
    """It sends pages to other readers, or this process was busy."""

    async def answer(_: BookieRef) -> None:
        await asyncio.sleep(0.03)
        bookies.heard = asyncio.get_running_loop().time() + 1
        await asyncio.sleep(0.05)

    bookies = DictionaryBookies(SIZES, scanning=ALL, before_answer=answer)
    reader = await reads_all_of(bookies, config=ClientConfig(speculative_read_seconds=0.04))
    assert (len(bookies.scanned), bookies.asked) == (1, [])
    assert not reader._view.cluster.slow_or_failed_lately()


async def test_a_bookie_that_talks_and_never_gives_the_page_is_left_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan_read, "PATIENCE_TIMES_MAX", 3)
    never = asyncio.Event()

    async def answer(bookie: BookieRef) -> None:
        if bookie == scanners(bookies)[0] and not bookies.asked:
            await never.wait()

    bookies = DictionaryBookies(SIZES, scanning=ALL, before_answer=answer, heard=2**40)
    reader = await reads_all_of(bookies, config=ClientConfig(speculative_read_seconds=0.02))
    assert reader._view.cluster.slow_or_failed_lately() == {scanners(bookies)[0]}
