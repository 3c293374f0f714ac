"""The recovery machine, one answer at a time: what it asks next, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.wire import LacReply, ReadReply, Status
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.ledger_effects import Finish, ReadFenced, RecoveryEffect
from ledgers.protocol.ledger_recovery import READ_AHEAD_ENTRIES, Recovery
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.notes.fragment_note import FragmentNote, Headline, decode

LEDGER_ID = 7
ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(3))


def fenced() -> tuple[Recovery, list[RecoveryEffect]]:
    """A ledger of which nobody knows any entry, and whose bookies are fenced; what is asked of them then."""
    record = LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),)).in_recovery()
    recovery = Recovery(record, Crc32cDigester(LEDGER_ID))
    recovery.start()
    assert recovery.lac_answered(0, LacReply(Status.NO_SUCH_LEDGER, vouched_since=1)) == []
    return recovery, recovery.lac_answered(1, LacReply(Status.OK, vouched_since=1))


def asked(effects: list[RecoveryEffect]) -> list[tuple[int, int, int]]:
    return [(e.position, e.first_entry, e.last_entry) for e in effects if isinstance(e, ReadFenced)]


def test_every_bookie_is_read_from_the_first_entry_that_is_not_known() -> None:
    _, effects = fenced()
    assert asked(effects) == [(n, 0, READ_AHEAD_ENTRIES - 1) for n in range(3)]


def test_a_bookie_that_has_answered_ahead_of_the_walk_is_not_read_on() -> None:
    """One silence decides nothing, and what lies further on is not wanted yet."""
    recovery, _ = fenced()
    assert asked(recovery.read_answered(0, ReadReply(Status.OK, covered_through=100))) == []


def failure(effects: list[RecoveryEffect]) -> str:
    (end,) = effects
    assert isinstance(end, Finish)
    return str(end.error)


OLDER = "knows a later state of the ledger than the metadata"


@pytest.mark.parametrize(
    "latest",
    [Headline(5, 2, is_closed=False), Headline(0, 2, is_closed=False), Headline(0, 1, is_closed=True)],
    ids=["a later fragment", "one in place of the last", "the end"],
)
def test_an_answer_that_knows_a_later_state_of_the_ledger_ends_a_recovery(latest: Headline) -> None:
    """Whether it is the first answer, or comes when entries are read already; and whoever vouches for the metadata."""
    told = LacReply(Status.OK, vouched_since=1, latest=latest)
    recovery = Recovery(numbered(), Crc32cDigester(LEDGER_ID))
    recovery.start()
    assert OLDER in failure(recovery.lac_answered(0, told))
    recovery = Recovery(numbered(), Crc32cDigester(LEDGER_ID))
    recovery.start()
    for n in (0, 1):
        recovery.lac_answered(n, LacReply(Status.OK, vouched_since=1))
    assert OLDER in failure(recovery.lac_answered(2, told))


@pytest.mark.parametrize(
    "latest",
    [None, Headline(0, 1, is_closed=False), Headline(0, 0, is_closed=False)],
    ids=["nothing", "the same", "without a number"],
)
def test_an_answer_that_knows_no_more_than_the_record_does_not(latest: Headline | None) -> None:
    recovery = Recovery(numbered(), Crc32cDigester(LEDGER_ID))
    recovery.start()
    effects = [recovery.lac_answered(n, LacReply(Status.OK, vouched_since=1, latest=latest)) for n in (0, 1)]
    assert len(asked(effects[1])) == 3


def test_fragments_without_numbers_go_by_their_first_entries() -> None:
    """Where the record has lost the numbers, and notes have them still."""
    recovery, _ = fenced()
    known = LacReply(Status.OK, vouched_since=1, latest=Headline(0, 3, is_closed=False))
    assert recovery.lac_answered(2, known) == []
    later = LacReply(Status.OK, vouched_since=1, latest=Headline(1, 0, is_closed=False))
    assert OLDER in failure(recovery.lac_answered(2, later))


def test_each_bookie_of_a_fragment_that_the_recovery_made_is_told_of_it_with_the_end() -> None:
    """Also of one between two others: where the metadata went back, nobody else would know of it."""
    recovery, _ = fenced()
    three, four = BookieRef("b3", "i"), BookieRef("b4", "i")
    lost = ENSEMBLE[2]
    changed = (
        Fragment(0, ENSEMBLE, number=1),
        Fragment(1, (*ENSEMBLE[:2], three), number=2),
        Fragment(2, (four, ENSEMBLE[1], lost), number=3),
    )
    closed = replace(recovery.record, fragments=changed).closed(7, 70)
    told = [(bookie, decode(note)) for bookie, note in recovery.end_notes(closed)]
    assert told == [
        (bookie, FragmentNote.of(closed, one))
        for one in changed
        for bookie in one.ensemble
        if bookie != lost  # it was not fenced
    ]
    assert {note.fragment.number for bookie, note in told if bookie == three} == {2}


def test_of_fragments_that_the_recovery_found_settled_nobody_is_told() -> None:
    earlier = Fragment(0, (*ENSEMBLE[:2], BookieRef("b9", "i")), number=1)
    record = LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (earlier, Fragment(4, ENSEMBLE, number=2))).in_recovery()
    recovery = Recovery(record, Crc32cDigester(LEDGER_ID))
    recovery.start()
    recovery.lac_answered(0, LacReply(Status.OK, vouched_since=1))
    (only,) = recovery.end_notes(record.closed(7, 70))
    assert only[0] == ENSEMBLE[0] and decode(only[1]).fragment.number == 2


def numbered() -> LedgerRecord:
    return LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (Fragment(0, ENSEMBLE, number=1),)).in_recovery()
