"""One look-up gives the frames of one page, and says through which entry they are all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.index import holdings as holdings_module
from bookie.index import index as index_module
from bookie.index.frame_locations import FrameLocation
from bookie.index.holdings import Overhead, runs_of
from bookie.index.index import Index
from bookie.wire.messages import Holding

LEDGER, NEIGHBOUR = 5, 6
SIZE = 100


@contextmanager
def index_of(frames: list[FrameLocation], *, stored: int) -> Iterator[Index]:
    """The first `stored` frames behind a checkpoint, the others before the next."""
    with TemporaryDirectory() as directory, closing(Index(Path(directory))) as index:
        for number, frame in enumerate(frames):
            if number == stored:
                checkpoint(index)
            index.add(LEDGER, frame)
            index.add(NEIGHBOUR, frame)
        if stored >= len(frames):
            checkpoint(index)
        yield index


def checkpoint(index: Index) -> None:
    index.begin_checkpoint()
    index.commit_checkpoint(0, [])
    index.end_checkpoint()


def page(index: Index, first: int, last: int, bytes_max: int) -> tuple[list[FrameLocation], int]:
    return index.page(LEDGER, first, last, index.recent_holding(LEDGER, first, last), bytes_max)


spans = st.tuples(st.integers(0, 40), st.sampled_from([0, 0, 1, 5, 20, 300]))


@settings(max_examples=200)
@given(
    st.lists(spans, max_size=12),
    st.integers(0, 12),
    st.integers(0, 40),
    st.integers(0, 60),
    st.sampled_from([1, SIZE, 3 * SIZE, 10_000]),
)
def test_pages_one_after_the_other_show_every_frame_that_meets_the_range(
    frames: list[tuple[int, int]], stored: int, first: int, length: int, bytes_max: int
) -> None:
    places = [
        FrameLocation(start, 64 + n * SIZE, start + span, span + 1, SIZE)
        for n, (start, span) in enumerate(frames)
    ]
    last = first + length
    meeting = {one for one in places if one.first_entry <= last and first <= one.last_entry}
    seen: set[FrameLocation] = set()
    with index_of(places, stored=stored) as index:
        while first <= last:
            shown, through = page(index, first, last, bytes_max)
            assert first <= through <= last
            assert shown == sorted(
                one for one in meeting if one.first_entry <= through and first <= one.last_entry
            )
            seen.update(shown)
            first = through + 1
    assert seen == meeting


def test_a_look_up_ends_with_the_page_however_long_the_ledger() -> None:
    places = [FrameLocation(n, 64 + n * SIZE, n, 1, SIZE) for n in range(1000)]
    with index_of(places, stored=500) as index:
        assert page(index, 400, 999, 10 * SIZE) == (places[400:410], 409)
        assert page(index, 495, 999, 10 * SIZE) == (places[495:505], 504)
        assert page(index, 995, 2000, 10 * SIZE) == (places[995:], 2000)


def test_a_page_does_not_speak_for_frames_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: too many copies of one entry are too many to answer for, which `covered_through` says."""
    monkeypatch.setattr(index_module, "PLACES_PER_PAGE_MAX", 3)
    copies = [FrameLocation(7, 64 + n * SIZE, 7, 1, SIZE) for n in range(4)]
    with index_of(copies, stored=2) as index:
        shown, through = page(index, 7, 9, 10_000)
        assert len(shown) == 3
        assert through == 6


def test_a_page_that_begins_within_a_frame_is_as_full_as_others() -> None:
    """Else every window of a reader that does not begin where a frame does would take two calls."""
    places = [FrameLocation(10 * n, 64 + n * SIZE, 10 * n + 9, 10, SIZE) for n in range(4)]
    with index_of(places, stored=4) as index:
        assert page(index, 5, 24, 2 * SIZE) == (places[:3], 24)


def test_a_page_reads_no_more_than_a_few_times_what_it_gives() -> None:
    """Frames that reach into it with few of their entries are counted for more than these."""
    places = [FrameLocation(n, 64 + n * SIZE, n + 1000, 1001, SIZE) for n in range(1, 50)]
    with index_of(places, stored=50) as index:
        shown, through = page(index, 0, 49, 2 * SIZE)
    assert (len(shown), through) == (2 * index_module.READ_TIMES_MAX, 2 * index_module.READ_TIMES_MAX)


# --- holdings: in runs, where the bytes of a ledger lie

NONE = Overhead(0, 0)


@settings(max_examples=200)
@given(
    st.lists(spans, max_size=12),
    st.integers(0, 12),
    st.integers(0, 40),
    st.integers(0, 60),
    st.sampled_from([1, SIZE, 3 * SIZE, 10_000]),
    st.integers(0, 12),
)
def test_looks_one_after_the_other_tell_of_every_frame_that_begins_in_the_range_once(
    frames: list[tuple[int, int]], stored: int, first: int, length: int, step_bytes: int, in_one_look: int
) -> None:
    places = [
        FrameLocation(start, 64 + n * SIZE, start + span, span + 1, SIZE)
        for n, (start, span) in enumerate(frames)
    ]
    last = first + length
    wanted = [one for one in places if first <= one.first_entry <= last]
    most_of_one_entry = max([sum(a.first_entry == b.first_entry for b in places) for a in places], default=0)
    told: list[Holding] = []
    with pytest.MonkeyPatch.context() as patch, index_of(places, stored=stored) as index:
        patch.setattr(holdings_module, "FRAMES_LOOKED_AT_MAX", most_of_one_entry + in_one_look + 1)
        begin = first
        while begin <= last:
            recent = index.recent_holding(LEDGER, begin, last)
            runs, through = index.holdings(LEDGER, begin, last, recent, step_bytes, NONE)
            assert begin <= through <= last
            told += [run for run in runs if run.first_entry <= through]
            begin = through + 1
    assert sum(run.entries for run in told) >= sum(one.entries for one in wanted)
    assert {run.first_entry for run in told} <= {one.first_entry for one in wanted}
    assert all(any(r.first_entry <= one.first_entry <= r.last_entry for r in told) for one in wanted)
    assert told == sorted(told)
    if in_one_look == 12:  # all in one look: nothing is told twice
        assert sum(run.payload_bytes for run in told) == SIZE * len(wanted)


def test_a_large_frame_behind_small_ones_is_a_run_by_itself() -> None:
    places = [
        FrameLocation(0, 64, 99, 100, 10),
        FrameLocation(100, 128, 199, 100, 10),
        FrameLocation(200, 192, 200, 1, 5000),
    ]
    told, _ = runs_of(places, 0, 999, 100, NONE)
    assert told == (Holding(0, 199, 200, 20), Holding(200, 200, 1, 5000))


def test_a_run_ends_once_it_has_its_bytes_and_never_between_frames_of_one_entry() -> None:
    twice = [
        FrameLocation(0, 64, 9, 10, 50),
        FrameLocation(0, 128, 9, 10, 50),
        FrameLocation(10, 192, 19, 10, 50),
    ]
    assert runs_of(twice, 0, 99, 1, NONE) == ((Holding(0, 9, 20, 100), Holding(10, 19, 10, 50)), 99)
    assert runs_of(twice, 0, 99, 1000, NONE) == ((Holding(0, 19, 30, 150),), 99)


def test_a_look_ends_at_its_limit_of_runs_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings_module, "HOLDINGS_MAX", 2)
    places = [FrameLocation(n, 64 * n, n, 1, SIZE) for n in range(5)]
    runs, through = runs_of(places, 0, 99, SIZE, NONE)
    assert ([run.first_entry for run in runs], through) == ([0, 1], 1)
    assert runs_of(places, 2, 99, SIZE, NONE)[1] == 3
    assert runs_of(places, 4, 99, SIZE, NONE) == ((Holding(4, 4, 1, SIZE),), 99)


def test_so_many_copies_of_one_entry_that_a_look_cannot_pass_them_are_told_as_no_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holdings_module, "FRAMES_LOOKED_AT_MAX", 3)
    copies = [FrameLocation(7, 64 * n, 7, 1, SIZE) for n in range(5)]
    assert runs_of(copies, 7, 99, 1, NONE)[1] < 7


def test_what_a_record_holds_besides_payload_does_not_count() -> None:
    places = [FrameLocation(0, 64, 9, 10, 1000), FrameLocation(10, 1064, 19, 10, 150)]
    told = runs_of(places, 0, 99, 1, Overhead(80, 16))
    assert [run.payload_bytes for run in told[0]] == [1000 - 80 - 160, 0]
