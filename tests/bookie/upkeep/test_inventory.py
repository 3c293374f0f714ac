"""Which entries a fragment places at a bookie, as ranges and as the rule says, and which of them are missing (W1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.upkeep.inventory.entry_ranges import contains, merged, missing, overlap, runs, uncovered
from bookie.upkeep.inventory.placed_entries import ENTRY_MAX, EVERYTHING, PlacedEntries, parts, shares
from bookie.wire.messages import EntryRange
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from tests.bookie.upkeep.replicas import BK1, BK2, BK3, ME, placed

NAMES = [BookieRef(f"b{n}", "i") for n in range(1, 8)] + [ME]


@st.composite
def closed_records(draw: st.DrawFn) -> LedgerRecord:
    size = draw(st.integers(1, 6))
    writes = draw(st.integers(1, size))
    starts = [0, *sorted(draw(st.sets(st.integers(1, 40), max_size=4)))]
    ensembles = st.permutations(NAMES).map(lambda names: tuple(names[:size]))
    fragments = tuple(Fragment(start, draw(ensembles)) for start in starts)
    return LedgerRecord(7, Shape(size, writes, 1), fragments).closed(draw(st.integers(-1, 60)), 0)


@given(closed_records())
def test_shares_hold_the_entries_that_the_rule_places_at_a_bookie(record: LedgerRecord) -> None:
    found = [
        n for share in shares(record, ME) for n in sorted(share.ids(share.first_entry, share.last_entry))
    ]
    assert found == placed(record)


@given(closed_records(), st.integers(0, 60), st.integers(0, 60))
def test_a_part_goes_from_the_first_to_the_last_entry_placed_there(
    record: LedgerRecord, first: int, last: int
) -> None:
    for share in shares(record, ME):
        here = [n for n in range(first, last + 1) if share.first_entry <= n <= share.last_entry]
        ours = [n for n in here if share.holds(n)]
        assert share.between(first, last) == (EntryRange(ours[0], ours[-1]) if ours else None)
        assert share.is_striped or ours == here


@given(closed_records(), st.lists(st.integers(0, 70), max_size=8, unique=True))
def test_parts_ascend_and_hold_what_is_placed_there_of_the_spans(
    record: LedgerRecord, edges: list[int]
) -> None:
    cuts = sorted(edges)[: len(edges) // 2 * 2]
    spans = [EntryRange(first, last) for first, last in zip(cuts[::2], cuts[1::2], strict=True)]
    found = [
        n
        for share, part in parts(record, ME, spans)
        for n in sorted(share.ids(part.first_entry, part.last_entry))
    ]
    assert found == [n for n in placed(record) if any(s.first_entry <= n <= s.last_entry for s in spans)]


def test_another_incarnation_is_another_bookie() -> None:
    former = replace(ME, incarnation="before")
    record = LedgerRecord(7, Shape(2, 2, 2), (Fragment(0, (former, BK1)), Fragment(9, (ME, BK1)))).closed(
        20, 0
    )
    assert [(share.first_entry, share.last_entry) for share in shares(record, ME)] == [(9, 20)]
    assert [(share.first_entry, share.last_entry) for share in shares(record, former)] == [(0, 8)]


def test_the_last_fragment_of_an_open_ledger_has_no_end() -> None:
    record = LedgerRecord(7, Shape(2, 2, 2), (Fragment(0, (ME, BK1)), Fragment(9, (BK2, ME))))
    assert [(share.first_entry, share.last_entry) for share in shares(record, ME)] == [(0, 8), (9, ENTRY_MAX)]


@pytest.mark.parametrize("shape", [Shape(3, 3, 2), Shape(3, 2, 2)])
def test_a_ledger_of_any_length_takes_no_longer(shape: Shape) -> None:
    last = 2**62
    record = LedgerRecord(7, shape, (Fragment(0, (BK1, BK2, ME)), Fragment(5, (ME, BK2, BK3)))).closed(
        last, 0
    )
    (_, first), (share, second) = parts(record, ME, [EVERYTHING])
    assert first.last_entry <= 4
    assert share.holds(second.last_entry)
    assert last - 3 <= second.last_entry <= last


# --- gaps between what is there


LAST = 60
ids = st.sets(st.integers(0, LAST)).map(sorted)
ranges = st.builds(
    lambda first, size: EntryRange(first, first + size), st.integers(0, LAST), st.integers(0, 10)
)


@st.composite
def some_shares(draw: st.DrawFn) -> PlacedEntries:
    size = draw(st.integers(1, 6))
    writes = draw(st.integers(1, size))
    return PlacedEntries(
        draw(st.integers(0, 20)), LAST, draw(st.integers(0, size - 1)), Shape(size, writes, 1)
    )


def every(found: list[EntryRange]) -> set[int]:
    return {n for one in found for n in range(one.first_entry, one.last_entry + 1)}


@given(some_shares(), st.lists(ids, max_size=6), st.data())
def test_what_is_placed_here_and_held_nowhere_is_missing(
    share: PlacedEntries, held: list[list[int]], data: st.DataObject
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
def test_one_gap_spans_all_that_is_missing_in_a_row(share: PlacedEntries) -> None:
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
    share = PlacedEntries(0, 2**62, 1, Shape(3, 3, 2))
    held = [range(5, 2**61), range(2**61 + 1, 2**62)]
    assert missing(share, 0, 2**62, held) == [
        EntryRange(0, 4),
        EntryRange(2**61, 2**61),
        EntryRange(2**62, 2**62),
    ]
