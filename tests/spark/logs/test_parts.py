"""Which parts of which segments are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgers import LedgerError
from metadata.records.logs.segment import Segment
from spark.logs.columns import TimeRange
from spark.logs.segment_parts import parts_between


def chain(*segments: tuple[int, int | None, int, int]) -> list[Segment]:
    """Of (first position, end position, time of the first, time of the last)."""
    return [
        Segment(10 + n, first, 1, begun, end, ended) for n, (first, end, begun, ended) in enumerate(segments)
    ]


CHAIN = chain((0, 10, 100, 190), (10, 20, 200, 290), (20, None, 300, 0))


@given(st.integers(0, 30), st.integers(0, 30))
def test_each_position_is_in_one_part(start: int, length: int) -> None:
    parts = parts_between("orders", CHAIN, start, start + length)
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(start, start + length))
    for part in parts:
        assert part.segment.holds(part.start) and part.segment.holds(part.stop - 1)
        assert part.times == TimeRange()
        assert part.last_entry == part.stop - 1 - part.segment.first_position


@given(
    st.lists(st.integers(0, 30), min_size=25, max_size=25).map(sorted),
    st.none() | st.integers(0, 31),
    st.none() | st.integers(0, 31),
)
def test_what_is_read_of_times_is_from_the_first_record_of_one_time_to_before_that_of_another(
    times: list[int], start_us: int | None, stop_us: int | None
) -> None:
    segments = chain((0, 10, times[0], times[9]), (10, 20, times[10], times[19]), (20, None, times[20], 0))
    read = [
        n
        for part in parts_between("orders", segments, 0, 25, TimeRange(start_us, stop_us))
        for n in range(part.start, part.stop)
        if (part.times.start_us or 0) <= times[n]
        and (part.times.stop_us is None or times[n] < part.times.stop_us)
    ]
    stop = 31 if stop_us is None else stop_us
    assert read == [n for n in range(25) if (start_us or 0) <= times[n] < stop]


def test_a_segment_whose_writers_clock_was_ahead_counts_by_what_the_chain_says() -> None:
    """As in `Log.position_at`: the chain's times never go back, whatever its records have."""
    parts = parts_between("orders", CHAIN, 0, 25, TimeRange(200, 250))
    assert [(part.start, part.stop, part.times) for part in parts] == [(10, 20, TimeRange(200, 250))]


def test_segments_that_are_missing_are_not_taken_for_an_end() -> None:
    for there in (CHAIN[1:], CHAIN[:1], [CHAIN[0], CHAIN[2]], []):
        with pytest.raises(LedgerError, match="log 'orders' was truncated while it was being read"):
            parts_between("orders", there, 0, 25)
