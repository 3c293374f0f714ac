"""Gaps between what is there, against sets of single entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bookie.upkeep.inventory.gaps import contains, merged, missing, overlap, runs, uncovered
from bookie.upkeep.inventory.placed_entries import Share
from bookie.wire.messages import EntryRange
from metadata.records.ledger_record import Shape

LAST = 60
ids = st.sets(st.integers(0, LAST)).map(sorted)
ranges = st.builds(
    lambda first, size: EntryRange(first, first + size), st.integers(0, LAST), st.integers(0, 10)
)


@st.composite
def some_shares(draw: st.DrawFn) -> Share:
    size = draw(st.integers(1, 6))
    writes = draw(st.integers(1, size))
    return Share(draw(st.integers(0, 20)), LAST, draw(st.integers(0, size - 1)), Shape(size, writes, 1))


def every(found: list[EntryRange]) -> set[int]:
    return {n for one in found for n in range(one.first_entry, one.last_entry + 1)}


@given(some_shares(), st.lists(ids, max_size=6), st.data())
def test_what_is_placed_here_and_held_nowhere_is_missing(
    share: Share, held: list[list[int]], data: st.DataObject
) -> None:
    part = share.between(data.draw(st.integers(0, LAST)), LAST)
    if part is None:
        return
    here = {n for n in range(part.first_entry, part.last_entry + 1) if share.holds(n)}
    lost = here.difference(*held)
    found = missing(share, part.first_entry, part.last_entry, held)
    assert {n for n in every(found) if share.holds(n)} == lost
    assert all({one.first_entry, one.last_entry} <= lost for one in found)
    assert all(a.last_entry < b.first_entry for a, b in zip(found, found[1:], strict=False))


@given(some_shares())
def test_one_gap_spans_all_that_is_missing_in_a_row(share: Share) -> None:
    """Also the entries of other bookies in a striped ledger: else each would be fetched by itself."""
    part = share.between(0, LAST)
    assert part is not None
    assert missing(share, part.first_entry, part.last_entry, []) == [part]


@given(ids)
def test_runs_are_what_follows_without_a_hole(found: list[int]) -> None:
    stretches = list(runs(found))
    assert sorted(every(stretches)) == found
    assert all(a.last_entry + 1 < b.first_entry for a, b in zip(stretches, stretches[1:], strict=False))


@given(st.lists(ranges, max_size=8))
def test_merged_ranges_hold_the_same_and_lie_apart(some: list[EntryRange]) -> None:
    found = merged(some)
    assert every(found) == every(some)
    assert all(a.last_entry + 1 < b.first_entry for a, b in zip(found, found[1:], strict=False))


@given(st.lists(ranges, max_size=8), st.integers(0, LAST), st.integers(0, LAST))
def test_what_no_range_covers_is_uncovered(some: list[EntryRange], first: int, last: int) -> None:
    assert every(list(uncovered(first, last, some))) == set(range(first, last + 1)) - every(some)


@given(ranges, ranges)
def test_ranges_overlap_and_contain_as_their_entries_do(one: EntryRange, other: EntryRange) -> None:
    assert overlap(one, other) == bool(every([one]) & every([other]))
    assert contains(one, other) == (every([one]) >= every([other]))


def test_a_ledger_without_stripes_takes_no_work_per_entry() -> None:
    share = Share(0, 2**62, 1, Shape(3, 3, 2))
    held = [range(5, 2**61), range(2**61 + 1, 2**62)]
    assert missing(share, 0, 2**62, held) == [
        EntryRange(0, 4),
        EntryRange(2**61, 2**61),
        EntryRange(2**62, 2**62),
    ]
