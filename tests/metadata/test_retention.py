"""What of a log goes by itself: by age, by bytes, by the slowest cursor; and what is next."""

from __future__ import annotations

import pytest

from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import directory_generations
from metadata.records.directory_generations import Life
from metadata.records.ledger_record import BookieRef
from metadata.records.logs import log_codec
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.retention import CountedCursor, Judgement, Retention, judge
from metadata.records.logs.retention_view import look
from metadata.records.logs.segment import Segment
from metadata.records.registration import Registration

SECOND = 1_000_000
HEAD = [
    Segment(n, 10 * n, 1, n * SECOND, end_position=10 * n + 10, ended_us=(n + 1) * SECOND, length_bytes=100)
    for n in range(4)
]
"""Ten records and a hundred bytes a second."""


def judged(retention: Retention, *cursors: CountedCursor, now: float = 4.0) -> Judgement:
    return judge(retention, HEAD, 400, cursors, round(now * SECOND))


def at(name: str, position: int | None, *, counts: bool = True) -> CountedCursor:
    return CountedCursor(name, position, 0.0, counts)


def test_by_age_whole_segments_go_whose_records_are_all_as_old() -> None:
    found = judged(Retention(age_seconds=2))
    assert found.before == 20
    assert found.next is not None
    assert (found.next.first_position, found.next.goes_us) == (20, 5 * SECOND)


def test_by_bytes_what_has_as_many_behind_it_goes() -> None:
    assert judged(Retention(bytes=200)).before == 20
    found = judged(Retention(bytes=201))
    assert found.before == 10
    assert found.next is not None and found.next.why == "1 more bytes have to be written first"


def test_by_age_or_by_bytes_whichever_comes_first() -> None:
    assert judged(Retention(age_seconds=3, bytes=200)).before == 20
    assert judged(Retention(age_seconds=2, bytes=10_000)).before == 20


def test_what_a_cursor_has_still_to_read_stays_however_old() -> None:
    settled = Retention(age_seconds=1, cursors=("billing", "audit"))
    assert judged(settled, at("billing", 39), at("audit", 15), now=99).before == 10
    found = judged(settled, at("billing", 39), at("audit", 9), now=99)
    assert found.before is None
    assert found.next is not None and "audit has not read it yet" in found.next.why
    assert judged(settled, at("billing", 39), at("audit", 9, counts=False), now=99).before == 30


def test_by_cursors_alone_what_all_of_them_have_read_goes_and_a_silent_one_gives_nothing_up() -> None:
    settled = Retention(cursors=("billing",))
    assert judged(settled, at("billing", 30)).before == 30
    assert judged(settled, at("billing", 30, counts=False)).before is None


def test_a_cursor_that_is_not_there_keeps_everything() -> None:
    found = judged(Retention(age_seconds=1, cursors=("billing",)), at("billing", None), now=99)
    assert found.before is None
    assert found.next is not None and "billing does not exist" in found.next.why


def test_nothing_goes_unless_it_is_asked_for() -> None:
    assert judged(Retention(), now=10**9).before is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"age_seconds": 0.5},
        {"bytes": 0},
        {"cursors": ("a", "a")},
        {"cursors": ("no name",)},
        {"cursors": tuple(f"c{n}" for n in range(33))},
        {"cursor_silent_seconds": 60},
    ],
)
def test_settings_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Retention(**wrong)  # type: ignore[arg-type]


def test_a_logs_record_keeps_what_goes_by_itself() -> None:
    settled = Retention(3600.5, 10**10, ("billing", "audit"), 86_400)
    record = LogRecord(bytes(16), "orders").retained(settled)
    assert log_codec.decode("logs/00", log_codec.encode(record)) == record
    without = record.retained(Retention())
    assert log_codec.encode(without) == log_codec.encode(LogRecord(bytes(16), "orders"))


async def test_a_look_goes_over_pages_and_passes_over_what_a_page_and_the_record_both_have() -> None:
    logs = LogStore(MemoryStore(MemoryData()))
    record = LogRecord(bytes(16), "orders", epoch=1, segments=tuple(HEAD[2:]), paged_through=20)
    record = record.truncated(5).retained(Retention(bytes=1))
    await logs.put_page(record.identity, tuple(HEAD[:3]))  # its writer could not finish it
    found = await look(logs, record)
    assert [s.first_position for s in found.head] == [0, 10, 20, 30]
    assert found.bytes_left == 400
    assert found.judged(0).before == 30


async def test_a_segment_that_two_pages_have_counts_once() -> None:
    """A writer could not finish the first one, and the next writer's page has its segments again."""
    logs = LogStore(MemoryStore(MemoryData()))
    record = LogRecord(bytes(16), "orders", epoch=2, segments=tuple(HEAD[3:]), paged_through=30)
    record = record.retained(Retention(bytes=201))
    await logs.put_page(record.identity, tuple(HEAD[:2]))
    await logs.put_page(record.identity, tuple(HEAD[:3]))
    found = await look(logs, record)
    assert [s.first_position for s in found.head] == [0, 10, 20, 30]
    assert (found.bytes_left, found.judged(0).before) == (400, 10)


@pytest.mark.parametrize(
    ("clocks", "now"),
    [([50], 50), ([40, 60], 40), ([50, 51, 10**15], 51), ([0, 50, 51], 50), ([0, 0, 51], 0), ([], 0)],
)
async def test_a_clock_that_is_ahead_does_not_move_the_time_and_one_that_says_nothing_holds_it_back(
    clocks: list[int], now: int
) -> None:
    store = MemoryStore(MemoryData())
    for n, clock in enumerate(clocks):
        registration = Registration(BookieRef(f"b{n}", f"i{n}"), "h:1")
        await store.create(registration.key, registration.encode())
        await directory_generations.write(store, f"b{n}", f"i{n}", Life(1, at_ms=clock))
    await directory_generations.write(store, "dead", "i", Life(1, at_ms=10**15))
    assert await directory_generations.time_ms(store) == now
