"""A ledger's record is made again from what bookies noted, whoever of them is asked."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bookledger.cluster.rebuilding.ledgers import Noted, RebuiltLedger, rebuilt_ledger
from metadata.records.fragment import BookieRef, Fragment, Lacking
from metadata.records.ledger_record import LedgerRecord, Shape
from metadata.records.notes.fragment_note import FragmentNote, notes_for

B1, B2, B3, B4, B5 = (BookieRef(f"b{n}", f"i{n}") for n in range(1, 6))
NEW = LedgerRecord(
    7,
    Shape(3, 2, 2),
    (Fragment(0, (B1, B2, B3), number=1),),
    custom_metadata={"of": b"ours"},
    created_ms=1000,
    verifier=b"v" * 32,
    password_salt=b"salt",
    identity=b"1" * 16,
)
CHANGED = NEW.changed_ensemble(Fragment(10, (B1, B2, B4), length_before=100))
TWICE = CHANGED.changed_ensemble(Fragment(20, (B5, B2, B4), length_before=200))
CLOSED = replace(TWICE.in_recovery().closed(25, 260), closed_ms=2000)


def told(record: LedgerRecord, *bookies: BookieRef) -> list[Noted]:
    """What these bookies noted, who know the record as it is here."""
    return [Noted(by, note) for by in bookies for note in notes_for(record, by)]


def record_of(rebuilt: RebuiltLedger) -> LedgerRecord:
    assert rebuilt.doubts == ()
    return rebuilt.record


@pytest.mark.parametrize("record", [NEW, CHANGED, TWICE, CLOSED])
def test_the_record_is_as_it_was_where_all_its_bookies_tell(record: LedgerRecord) -> None:
    assert record_of(rebuilt_ledger(told(record, B1, B2, B3, B4, B5))) == record


def test_one_bookie_of_each_fragment_is_enough() -> None:
    assert record_of(rebuilt_ledger([*told(NEW, B3), *told(TWICE, B4)])) == TWICE


def test_who_left_the_ledger_early_knows_less_and_takes_nothing_back() -> None:
    found = [*told(NEW, B3), *told(CHANGED, B1), *told(TWICE, B2, B4), *told(CLOSED, B5)]
    for seed in range(10):
        random.Random(seed).shuffle(found)
        assert record_of(rebuilt_ledger(found)) == CLOSED


def test_of_two_changes_that_begin_at_one_entry_the_later_counts() -> None:
    again = CHANGED.changed_ensemble(Fragment(10, (B1, B5, B4), length_before=100))
    assert record_of(rebuilt_ledger([*told(CHANGED, B2, B1), *told(again, B4)])) == again


def test_a_fragment_of_which_nothing_was_confirmed_is_not_of_the_closed_ledger() -> None:
    closed = TWICE.in_recovery().closed(15, 150)
    assert (
        record_of(rebuilt_ledger([*told(TWICE, B5, B2), *told(closed, B1, B2, B4), *told(NEW, B3)])) == closed
    )


def test_a_closed_ledger_without_an_entry_keeps_its_first_fragment() -> None:
    closed = NEW.in_recovery().closed(-1, 0)
    assert record_of(rebuilt_ledger(told(closed, B2))) == closed


def test_copies_that_were_moved_are_where_their_present_bookies_say() -> None:
    """A bookie that was drained kept its note, and has nothing to do with the ledger any more."""
    moved = CLOSED.moved(0, B1, B5)
    found = [*told(CLOSED, B1), *told(moved, B5, B2)]
    assert record_of(rebuilt_ledger(found)).fragments[0].ensemble == (B5, B2, B3)


def test_what_nobody_noted_is_told() -> None:
    rebuilt = rebuilt_ledger(told(TWICE, B5))
    assert rebuilt.doubts == ("nobody noted where the entries before 20 are",)
    first, last = rebuilt.record.fragments
    assert last == TWICE.fragments[-1]
    assert first.lacking == tuple(Lacking.everything(n) for n in range(3)) and first.first_entry == 0
    rebuilt = rebuilt_ledger([*told(NEW, B3), *told(TWICE, B5)])
    assert rebuilt.doubts == ("nobody noted fragment 2 of it, where some of the entries may be",)


def test_W8_of_two_ledgers_under_one_id_the_one_is_made_that_more_bookies_noted() -> None:
    other = replace(NEW, identity=b"2" * 16)
    rebuilt = rebuilt_ledger([*told(other, B1), *told(CLOSED, B2, B4)])
    assert rebuilt.record.identity == CLOSED.identity
    assert rebuilt.doubts[-1] == "another ledger has the same id, and is left out"


def test_notes_that_do_not_fit_together_make_no_record() -> None:
    note = FragmentNote.of(NEW, NEW.fragments[0])
    of_two = replace(note.ledger, shape=Shape(2, 2, 2), fragments=(Fragment(0, (B1, B2), number=2),))
    strange = FragmentNote(Fragment(0, (B1, B2), number=2), of_two)
    far = replace(note, fragment=replace(note.fragment, first_entry=5))
    with pytest.raises(ValueError, match="an ensemble must name"):
        rebuilt_ledger(
            [Noted(B1, strange), Noted(B2, replace(far, fragment=replace(far.fragment, number=1)))]
        )
