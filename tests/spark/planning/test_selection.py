"""What the option `ledgers` may say, and what it then means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgers import LedgerClient, LedgerError, LedgerRecord, NoSuchLedger
from metadata.records.ledger_record import SEGMENT, LedgerState
from spark.planning import selection
from spark.planning.selection import BadSelection, Extent, IdRange, Selection, merged, parse_ledgers
from tests.spark.made import closed


class Shelf:
    """The part of a client that a selection uses, over records that are there."""

    def __init__(self, records: Sequence[LedgerRecord]) -> None:
        self._records = {record.ledger_id: record for record in records}
        self.listed: list[int] = []

    def describe_ledger(self, ledger_id: int) -> LedgerRecord:
        if ledger_id not in self._records:
            raise NoSuchLedger(ledger_id)
        return self._records[ledger_id]

    def list_ledgers(self, *, first_ledger: int = 0, skip_unreadable: bool = True) -> Iterator[LedgerRecord]:
        assert not skip_unreadable, "a replay of all ledgers must not leave one out"
        for ledger_id in sorted(self._records):
            if ledger_id >= first_ledger:
                self.listed.append(ledger_id)
                yield self._records[ledger_id]


def resolve(chosen: Selection, shelf: Shelf) -> list[tuple[int, int, int]]:
    extents = chosen.resolve(cast(LedgerClient, shelf), b"")
    return [(e.record.ledger_id, e.first_entry, e.first_entry + e.entries - 1) for e in extents]


def shelf_of(*ids: int, entries: int = 10) -> Shelf:
    return Shelf([closed(ledger_id, entries, 100) for ledger_id in ids])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7", (IdRange(7, 7),)),
        ("7, 9,20-30", (IdRange(7, 7), IdRange(9, 9), IdRange(20, 30))),
        ("5:100-200", (IdRange(5, 5, 100, 200),)),
        ("20-30:0-9,", (IdRange(20, 30, 0, 9),)),
    ],
)
def test_ids_ranges_and_entries_are_understood(text: str, found: tuple[IdRange, ...]) -> None:
    assert parse_ledgers(text) == found


@pytest.mark.parametrize("text", ["", " , ", "x", "-7", "9-7", "5:9-7", "5:7", "7;9", "1-2-3", str(2**63)])
def test_what_names_no_ledgers_is_refused(text: str) -> None:
    with pytest.raises(BadSelection):
        parse_ledgers(text)


def test_without_ids_all_ledgers_are_read_and_of_none_none() -> None:
    assert resolve(Selection(), shelf_of(3, 1)) == [(1, 0, 9), (3, 0, 9)]
    assert resolve(Selection().of_ledgers([]), shelf_of(3, 1)) == []


def test_a_named_ledger_that_is_not_there_is_an_error_and_a_hole_in_a_range_is_none() -> None:
    with pytest.raises(NoSuchLedger, match="2"):
        resolve(Selection(parse_ledgers("1,2")), shelf_of(1, 3))
    assert resolve(Selection(parse_ledgers("1-3")), shelf_of(1, 3)) == [(1, 0, 9), (3, 0, 9)]


def test_a_ledger_missing_among_very_many_is_an_error_too() -> None:
    named = [i for i in range(1, 3 * selection.LOOKED_UP_MAX) if i != 77]
    with pytest.raises(NoSuchLedger, match="77"):
        resolve(Selection().of_ledgers([*named, 77]), shelf_of(*named))
    assert len(resolve(Selection().of_ledgers(named), shelf_of(*named))) == len(named)


def test_a_listing_covers_only_the_ids_asked_for() -> None:
    shelf = shelf_of(*range(1, 100))
    assert len(resolve(Selection(parse_ledgers("20-30")), shelf)) == 11
    assert shelf.listed == list(range(20, 32))


def test_a_ledger_named_twice_is_read_once() -> None:
    shelf = shelf_of(7, 8)
    assert resolve(Selection(parse_ledgers("7,7-8,8:2-3")), shelf) == [(7, 0, 9), (8, 0, 9)]
    assert resolve(Selection(parse_ledgers("7:0-2,7:2-4,7:8-20")), shelf) == [(7, 0, 4), (7, 8, 9)]


def test_entries_past_the_end_are_not_asked_for() -> None:
    assert resolve(Selection(parse_ledgers("7:5-100")), shelf_of(7)) == [(7, 5, 9)]
    assert resolve(Selection(parse_ledgers("7:50-100")), shelf_of(7)) == []
    assert resolve(Selection(), Shelf([closed(1, 0, 0)])) == []


def test_custom_metadata_chooses_whatever_the_case_of_its_name() -> None:
    shelf = Shelf([closed(1, 5, 50, custom={"Owner": b"ada"}), closed(2, 5, 50, custom={"Owner": b"Ada"})])
    assert resolve(Selection(custom={"owner": b"ada"}), shelf) == [(1, 0, 4)]
    assert resolve(Selection(custom={"owner": b"ada", "site": b"x"}), shelf) == []


def opened(ledger_id: int) -> LedgerRecord:
    return replace(closed(ledger_id, 5, 50), state=LedgerState.OPEN, last_entry=None, length_bytes=None)


def test_an_open_ledger_that_was_chosen_is_refused_by_name() -> None:
    shelf = Shelf([closed(1, 5, 50), opened(9)])
    for chosen in (Selection(parse_ledgers("1-9")), Selection(parse_ledgers("9"))):
        with pytest.raises(LedgerError, match=r"ledger 9 is open.*recover=true"):
            resolve(chosen, shelf)
    assert resolve(Selection(parse_ledgers("1-8")), shelf) == [(1, 0, 4)]
    assert resolve(Selection(custom={"owner": b"ada"}), shelf) == []


def test_without_a_choice_what_is_open_and_what_is_of_logs_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    of_logs = [closed(n, 5, 50, custom={SEGMENT: b"of a log"}) for n in (2, 3)]
    segment = replace(opened(4), custom_metadata={SEGMENT: b"of a log"})
    shelf = Shelf([closed(1, 5, 50), *of_logs, segment, *(opened(n) for n in range(10, 35))])
    assert resolve(Selection(), shelf) == [(1, 0, 4)]
    Selection().check(cast(LedgerClient, shelf))
    named = ", ".join(map(str, range(10, 30)))
    told = f'omitted: open ledgers {named} and 5 more; 3 ledgers of logs (read them with format("log"))'
    assert caplog.messages == [told]
    assert resolve(Selection(parse_ledgers("1-3")), shelf) == [(1, 0, 4), (2, 0, 4), (3, 0, 4)]
    assert not Selection().wants(of_logs[0]) and Selection(parse_ledgers("2")).wants(of_logs[0])
    with pytest.raises(LedgerError, match=r"no closed ledger outside of logs: nothing .*2 ledgers of logs"):
        Selection().check(cast(LedgerClient, Shelf(of_logs)))


def test_more_ledgers_than_a_job_reads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LEDGERS_MAX", 3)
    assert len(resolve(Selection(), shelf_of(1, 2, 3))) == 3
    with pytest.raises(BadSelection, match="3"):
        resolve(Selection(), shelf_of(1, 2, 3, 4))


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (Selection(), ""),
        (Selection(parse_ledgers("7, 9,20-30,5:100-200")), "ledgers=7,9,20-30,5:100-200"),
        (Selection(parse_ledgers("5"), {"b": b"x&y", "a": b"1"}), "ledgers=5&custom.a=1&custom.b=x%26y"),
        (Selection(custom={"a": b"1&custom.b=2"}), "custom.a=1%26custom.b%3D2"),
    ],
)
def test_a_selection_has_a_text_that_no_other_has(chosen: Selection, text: str) -> None:
    assert chosen.text == text


def test_of_a_ledger_the_entries_chosen_are_read_and_their_bytes_counted() -> None:
    chosen = Selection(parse_ledgers("7:2-4,7:4-5,8:90-99"))
    (extent,) = chosen.extents(closed(7, 10, 100))
    assert (extent.first_entry, extent.last_entry, extent.payload_bytes) == (2, 5, 40)
    assert chosen.extents(closed(8, 10, 100)) == []
    assert chosen.named == {7, 8} and Selection(parse_ledgers("1-3,5")).named == {5}
    (whole,) = Selection().extents(closed(9, 10, 100))
    assert whole.payload_bytes == 100


pieces = st.tuples(st.integers(1, 4), st.integers(0, 30), st.integers(0, 30))


@given(st.lists(pieces, max_size=8))
def test_what_overlaps_is_put_together_and_no_entry_is_lost_or_there_twice(chosen: list[Any]) -> None:
    extents = [Extent(closed(i, 20, 200), min(a, b), max(a, b)).clipped() for i, a, b in chosen]
    wanted = {
        (e.record.ledger_id, entry)
        for e in extents
        for entry in range(e.first_entry, e.first_entry + e.entries)
    }
    found = [(e.record.ledger_id, entry) for e in merged(extents) for entry in range(e.first_entry, e.end)]
    assert found == sorted(wanted)
