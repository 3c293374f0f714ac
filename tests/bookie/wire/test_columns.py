"""Columns hold entries: whatever is done to them, it is what a list of entries would give."""

from __future__ import annotations

import struct
from array import array
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire.columnar_entries import NO_ENTRIES, BadColumns, Columns, join, merge, of_payloads
from tests.bookie.entries import Entry, columns_of, entries_of

WIDTH = 4
I64_MAX = 2**63 - 1


def payload_of(entry_id: int) -> bytes:
    """Bytes that are the same whenever the entry is."""
    return entry_id.to_bytes(8, "little")[: entry_id % 6]


def entry(entry_id: int) -> Entry:
    return entry_id, payload_of(entry_id), struct.pack("<I", entry_id % 2**32)


ids = st.integers(0, 40) | st.integers(0, I64_MAX)
some_entries = st.sets(ids, max_size=12).map(lambda found: [entry(i) for i in sorted(found)])


@given(some_entries)
def test_entries_come_back_out_of_columns_as_they_went_in(entries: list[Entry]) -> None:
    columns = columns_of(entries)
    columns.check()
    assert entries_of(columns) == entries
    assert len(columns) == len(entries)
    assert list(columns.ids) == [i for i, _, _ in entries]
    assert list(columns.sizes) == [len(p) for _, p, _ in entries]


@given(some_entries.filter(bool))
def test_columns_know_their_first_and_last_entry_and_their_digests_width(entries: list[Entry]) -> None:
    columns = columns_of(entries)
    assert (columns.first_entry, columns.last_entry, columns.digest_width) == (
        entries[0][0],
        entries[-1][0],
        WIDTH,
    )


@given(some_entries, st.integers(0, 12), st.integers(0, 12))
def test_a_cut_takes_the_entries_between_two_indexes(entries: list[Entry], a: int, b: int) -> None:
    start, stop = sorted((min(a, len(entries)), min(b, len(entries))))
    assert entries_of(columns_of(entries).cut(start, stop)) == entries[start:stop]


@given(some_entries, ids, ids)
def test_between_takes_the_entries_of_a_range_both_ends_included(
    entries: list[Entry], first: int, last: int
) -> None:
    found = columns_of(entries).between(first, last)
    found.check()
    assert entries_of(found) == [e for e in entries if first <= e[0] <= last]


@given(some_entries, st.integers(0, 400))
def test_the_start_of_columns_takes_what_fits_and_at_least_one_entry(
    entries: list[Entry], bytes_max: int
) -> None:
    found = columns_of(entries).start_of(bytes_max)
    fitting: list[Entry] = []
    for one in entries:
        if fitting and columns_of([*fitting, one]).size_bytes > bytes_max:
            break
        fitting.append(one)
    assert entries_of(found) == fitting


@given(some_entries, st.integers(1, 3))
def test_where_keeps_exactly_the_wanted_entries(entries: list[Entry], modulus: int) -> None:
    found = columns_of(entries).where(lambda entry_id: entry_id % modulus == 0)
    assert entries_of(found) == [e for e in entries if e[0] % modulus == 0]


@given(some_entries.filter(bool), st.data())
def test_pick_takes_entries_by_index_in_the_order_given(entries: list[Entry], data: st.DataObject) -> None:
    indexes = data.draw(st.lists(st.integers(0, len(entries) - 1), max_size=8))
    assert entries_of(columns_of(entries).pick(indexes)) == [entries[i] for i in indexes]


@given(st.lists(some_entries, max_size=4))
def test_join_puts_one_part_behind_the_other(parts: list[list[Entry]]) -> None:
    assert entries_of(join([columns_of(part) for part in parts])) == [e for part in parts for e in part]


@given(st.lists(some_entries, max_size=4))
def test_merge_gives_every_entry_once_in_order_whatever_the_parts_overlap(parts: list[list[Entry]]) -> None:
    merged = merge(columns_of(part) for part in parts)
    merged.check()
    assert entries_of(merged) == [entry(i) for i in sorted({e[0] for part in parts for e in part})]


@given(st.integers(0, 2**40), st.lists(st.binary(max_size=9), max_size=8))
def test_payloads_become_consecutive_entries(first: int, payloads: list[bytes]) -> None:
    digests = bytes(WIDTH * len(payloads))
    columns = of_payloads(first, payloads, digests)
    columns.check()
    assert entries_of(columns) == [(first + i, p, bytes(WIDTH)) for i, p in enumerate(payloads)]


@given(st.lists(ids, min_size=1, max_size=6))
def test_ids_are_ascending_when_each_is_above_the_one_before(found: list[int]) -> None:
    columns = replace(columns_of([entry(3)] * len(found)), entry_ids=array("q", found).tobytes())
    with nullcontext() if sorted(set(found)) == found else pytest.raises(BadColumns, match="ascending"):
        columns.check()


GOOD = columns_of([entry(3), entry(7), entry(8)])

INCONSISTENT: list[tuple[str, Columns]] = [
    ("a partial id", replace(GOOD, entry_ids=GOOD.entry_ids[:-1])),
    ("an id too many", replace(GOOD, entry_ids=GOOD.entry_ids + struct.pack("<q", 9))),
    ("an id too few", replace(GOOD, entry_ids=GOOD.entry_ids[:-8])),
    ("no ids at all", replace(GOOD, entry_ids=b"")),
    ("a partial length", replace(GOOD, lengths=GOOD.lengths[:-1])),
    ("a length too few", replace(GOOD, lengths=GOOD.lengths[:-4])),
    ("digests of unequal width", replace(GOOD, digests=GOOD.digests[:-1])),
    ("digests without entries", replace(NO_ENTRIES, digests=b"abcd")),
    ("a payload without entries", replace(NO_ENTRIES, payload=b"a")),
    ("lengths without ids", replace(NO_ENTRIES, lengths=bytes(4))),
    ("a payload too short", replace(GOOD, payload=GOOD.payload[:-1])),
    ("a payload too long", replace(GOOD, payload=bytes(GOOD.payload) + b"a")),
    ("lengths that add up past the payload", replace(GOOD, lengths=b"\xff" * len(GOOD.lengths))),
    ("the same id twice", replace(GOOD, entry_ids=struct.pack("<3q", 3, 3, 8))),
    ("ids that fall", replace(GOOD, entry_ids=struct.pack("<3q", 3, 8, 7))),
    ("ids whose ends look like a run", replace(GOOD, entry_ids=struct.pack("<3q", 3, 3, 5))),
    ("a negative id", replace(GOOD, entry_ids=struct.pack("<3q", -1, 7, 8))),
]


@pytest.mark.parametrize("columns", [c for _, c in INCONSISTENT], ids=[name for name, _ in INCONSISTENT])
def test_columns_that_do_not_fit_together_are_refused(columns: Columns) -> None:
    with pytest.raises(BadColumns):
        columns.check()


def test_columns_without_entries_fit_together() -> None:
    NO_ENTRIES.check()
    assert entries_of(NO_ENTRIES) == []
    assert merge([]) == merge([NO_ENTRIES]) == join([]) == NO_ENTRIES
