"""A ledger's record is made again from what bookies noted, and what they could not tell is said.

How notes make a record: `tests/metadata/test_reconciling.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookledger.cluster.rebuilding.cluster_rebuild import rebuilt_ledger
from metadata.records.fragment import BookieRef, Fragment
from metadata.records.ledger_record import LedgerRecord, Shape
from metadata.records.notes.fragment_note import FragmentNote, notes_for
from metadata.records.notes.record_reconstruction import NotedBy

BK1, BK2, BK3, BK4, BK5 = (BookieRef(f"b{n}", f"i{n}") for n in range(1, 6))
NEW = LedgerRecord(
    7, Shape(3, 2, 2), (Fragment(0, (BK1, BK2, BK3), number=1),), created_ms=1000, identity=b"1" * 16
)
CHANGED = NEW.changed_ensemble(Fragment(10, (BK1, BK2, BK4), length_before=100))
TWICE = CHANGED.changed_ensemble(Fragment(20, (BK5, BK2, BK4), length_before=200))


def told(record: LedgerRecord, *bookies: BookieRef) -> list[NotedBy]:
    """What these bookies noted, who know the record as it is here."""
    return [NotedBy(by, note) for by in bookies for note in notes_for(record, by)]


def test_one_bookie_of_each_fragment_is_enough() -> None:
    rebuilt = rebuilt_ledger([*told(NEW, BK3), *told(TWICE, BK4)])
    assert [replace(one, lacking=()) for one in rebuilt.record.fragments] == [*TWICE.fragments]
    assert rebuilt.doubts == ()


def test_what_nobody_noted_is_told() -> None:
    assert rebuilt_ledger(told(TWICE, BK5)).doubts == (
        "no bookie noted the location of the entries before 20",
    )
    rebuilt = rebuilt_ledger([*told(NEW, BK3), *told(TWICE, BK5)])
    assert rebuilt.doubts == ("no bookie noted its fragment 2, which may contain some of the entries",)


def test_of_two_ledgers_under_one_id_the_one_is_made_that_is_younger() -> None:
    younger = replace(NEW, identity=b"2" * 16, created_ms=2000)
    rebuilt = rebuilt_ledger([*told(younger, BK1), *told(TWICE, BK2, BK4)])
    assert rebuilt.record == younger
    assert rebuilt.doubts == ("another ledger has the same id, and is omitted",)


def test_notes_that_do_not_fit_together_make_no_record() -> None:
    note = FragmentNote.of(NEW, NEW.fragments[0])
    of_two = replace(note.ledger, shape=Shape(2, 2, 2), fragments=(Fragment(0, (BK1, BK2), number=2),))
    strange = FragmentNote(Fragment(10, (BK1, BK2), number=2), of_two)
    with pytest.raises(ValueError, match="an ensemble must name"):
        rebuilt_ledger([NotedBy(BK1, strange), NotedBy(BK2, note)])
