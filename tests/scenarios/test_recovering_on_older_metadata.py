"""Recovery where the metadata may have gone back to an older copy of itself, or has (rule W8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.wire import EntryRange, LacReply, Status
from ledgers.errors import LedgerRecoveryFailed
from ledgers.protocol.effects import (
    ChangeRecord,
    Confirm,
    FenceLac,
    OpenLane,
    ReadFenced,
    RecoveryEffect,
    Send,
)
from ledgers.protocol.recovery import READ_AHEAD_ENTRIES, Recovery
from metadata.records.ledger_record import Fragment, LedgerRecord, LedgerState, Shape

from .ledger7 import (
    ALL,
    B0,
    B1,
    B2,
    B3,
    B4,
    DIGESTER,
    KNOWS_NOTHING,
    entries,
    failure,
    page,
    proposed,
    record,
    told,
)

WRITTEN_AT = 50
RECOVERING = replace(record((3, 3, 2), state=LedgerState.IN_RECOVERY), written_at=WRITTEN_AT)
PAIR = replace(record((2, 2, 2), state=LedgerState.IN_RECOVERY), written_at=WRITTEN_AT, also_at=(B3, B4))
SOURCES = (B0, B1, B3, B4)


def reads(first: int, *positions: int) -> list[RecoveryEffect]:
    """Fenced reads of `PAIR`; B3 and B4 stand behind the ensemble."""
    return [ReadFenced(n, SOURCES[n], first, first + READ_AHEAD_ENTRIES - 1) for n in positions]


def started(recovering: LedgerRecord) -> Recovery:
    recovery = Recovery(recovering, DIGESTER)
    recovery.start()
    return recovery


def vouching(since: int) -> LacReply:
    return LacReply(Status.OK, vouched_since=since)


# --- vouching -----------------------------------------------------------------------------------


def test_W8_nothing_is_read_before_a_bookie_vouches_for_the_time_since_the_record_was_written() -> None:
    recovery = started(RECOVERING)
    assert recovery.lac_answered(0, vouching(WRITTEN_AT + 1)) == []
    assert recovery.lac_answered(1, vouching(0)) == [], "two of three are fenced"
    effects = recovery.lac_answered(2, vouching(WRITTEN_AT))
    assert [type(one) for one in effects] == [ReadFenced] * 3


def test_W8_one_that_vouches_is_enough_and_nobody_else_is_waited_for() -> None:
    recovery = started(RECOVERING)
    recovery.lac_answered(0, vouching(7))
    assert [type(one) for one in recovery.lac_answered(1, vouching(0))] == [ReadFenced] * 3


@pytest.mark.parametrize("since", [0, WRITTEN_AT + 1], ids=["cannot tell", "came back later"])
def test_W8_where_nobody_vouches_nothing_is_closed(since: int) -> None:
    recovery = started(RECOVERING)
    recovery.lac_answered(0, vouching(since))
    recovery.lac_answered(1, vouching(since))
    error = failure(recovery.lac_failed(2, "timeout"))
    assert isinstance(error, LedgerRecoveryFailed) and not error.is_undecided
    assert "gone back to an older copy" in str(error)


def test_W8_nor_where_one_vouches_that_could_not_be_fenced() -> None:
    recovery = started(RECOVERING)
    recovery.lac_answered(0, LacReply(Status.IO_ERROR, vouched_since=1))
    recovery.lac_answered(1, vouching(0))
    assert "gone back to an older copy" in str(failure(recovery.lac_answered(2, vouching(0))))


def test_W8_of_a_record_that_an_older_program_marked_only_who_vouches_for_all_time_counts() -> None:
    """Its mark may be newer than what it says."""
    for since, is_read in ((2, False), (1, True)):
        recovery = started(replace(RECOVERING, written_at=0))
        effects = [one for n in range(3) for one in recovery.lac_answered(n, vouching(since))]
        assert any(isinstance(one, ReadFenced) for one in effects) or not is_read
        assert is_read or "gone back" in str(failure(effects))


# --- a record that may be older than the ledger ----------------------------------------------------


def fenced(recovering: LedgerRecord = PAIR, *, lac_through: int = -1) -> Recovery:
    """B0 and B1 are fenced; B3 and B4, which hold more than the record knows, have not been heard."""
    recovery = started(recovering)
    answer = told(lac_through) if lac_through >= 0 else KNOWS_NOTHING
    assert recovery.lac_answered(0, answer) + recovery.lac_answered(1, answer) == []
    return recovery


def reading() -> Recovery:
    """All four are read from entry 0 on."""
    recovery = fenced()
    assert recovery.lac_answered(2, vouching(1)) == []
    assert recovery.lac_answered(3, vouching(1)) == reads(0, 0, 1, 2, 3)
    return recovery


def test_W8_those_that_hold_more_than_the_record_knows_are_fenced_with_the_ensemble() -> None:
    assert Recovery(PAIR, DIGESTER).start() == [FenceLac(n, SOURCES[n]) for n in range(4)]


def test_W8_the_whole_last_fragment_is_read_and_what_they_have_is_written_back() -> None:
    """B0 left the ensemble and was chosen again: its LAC lies behind entries that only others have."""
    recovery = fenced(lac_through=4)
    recovery.lac_answered(2, told(3))
    assert recovery.lac_answered(3, told(2)) == reads(0, 0, 1, 2, 3)
    recovery.read_answered(0, page(0, 1, 4))
    recovery.read_answered(1, page(0, 1))
    recovery.read_answered(3, page())
    assert recovery.read_answered(2, page(2, 3, 5)) == [
        Send(1, entries(2, 3, 4, 5)),
        Send(2, entries(2, 3, 4, 5)),
    ]
    recovery.acked(1, 5)
    last = recovery.acked(2, 5)
    assert last[0] == Confirm(5)
    assert proposed(last[1:]) == replace(PAIR.closed(5, 12)), (
        "no copy is in doubt, and nobody is named any more"
    )


def test_W8_it_begins_with_the_last_fragment() -> None:
    two = replace(PAIR, fragments=(Fragment(0, (B0, B3), 0), Fragment(5, (B0, B1), 10)))
    recovery = fenced(two, lac_through=8)
    recovery.lac_answered(2, told(4))
    assert recovery.lac_answered(3, told(4)) == reads(5, 0, 1, 2, 3)
    recovery.read_answered(0, page())
    recovery.read_answered(1, page())
    recovery.read_answered(3, page())
    assert recovery.read_answered(2, page(5, 6))[:2] == [OpenLane(1, B0), OpenLane(2, B1)]


def test_W8_no_entry_is_absent_before_all_of_its_write_set_and_all_others_were_heard() -> None:
    three = replace(PAIR, shape=Shape(3, 3, 2), fragments=(Fragment(0, (B0, B1, B2)),), also_at=(B3,))
    recovery = started(three)
    for position in range(4):
        recovery.lac_answered(position, KNOWS_NOTHING)
    assert recovery.read_answered(0, page()) + recovery.read_answered(1, page()) == []
    assert recovery.read_answered(3, page()) == [], "B2 may have it"
    assert proposed(recovery.read_answered(2, page())).last_entry == -1


@pytest.mark.parametrize("silent", [False, True], ids=["damaged", "silent"])
def test_W8_where_one_of_them_cannot_tell_nothing_is_closed(silent: bool) -> None:
    recovery = reading()
    for position in (0, 1, 3):
        assert recovery.read_answered(position, page()) == []
    damaged = page(damaged=(EntryRange(0, 0),))
    effects = recovery.read_failed(2, "killed") if silent else recovery.read_answered(2, damaged)
    error = failure(effects)
    assert isinstance(error, LedgerRecoveryFailed) and error.is_undecided
    assert "b3: " in str(error)


def test_W8_nor_before_an_entry_that_any_of_them_proves() -> None:
    recovery = fenced()
    recovery.lac_answered(2, told(3))
    recovery.lac_answered(3, KNOWS_NOTHING)
    for position in range(1, 4):
        recovery.read_answered(position, page())
    error = failure(recovery.read_answered(0, page(0)))
    assert "entry 3 is proven to be confirmed, and no bookie that answers has entry 1" in str(error)


def test_W8_that_one_of_them_lacks_an_entry_ends_no_ledger() -> None:
    """R3: only bookies of the write set can say that an entry has no ack quorum."""
    recovery = reading()
    recovery.read_answered(2, page())
    recovery.read_answered(3, page())
    recovery.read_failed(0, "timeout")
    assert isinstance(failure(recovery.read_failed(1, "timeout")), LedgerRecoveryFailed)


def test_W8_an_ordinary_recovery_asks_nobody_but_the_ensemble() -> None:
    recovery = Recovery(RECOVERING, DIGESTER)
    asked = (
        recovery.start() + recovery.lac_answered(0, KNOWS_NOTHING) + recovery.lac_answered(1, KNOWS_NOTHING)
    )
    assert {one.bookie for one in asked if isinstance(one, FenceLac | ReadFenced)} == set(ALL[:3])
    recovery.read_answered(0, page())
    assert [type(one) for one in recovery.read_answered(1, page())] == [ChangeRecord]
