"""Recovery where the metadata may have gone back to an older copy of itself, or has (rule W8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.wire import LacReply, Status
from ledgers.errors import LedgerRecoveryFailed
from ledgers.protocol.ledger_effects import ReadFenced
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import LedgerRecord, LedgerState

from .ledger7 import BK3, BK4, DIGESTER, failure, record

WRITTEN_AT = 50
RECOVERING = replace(record((3, 3, 2), state=LedgerState.IN_RECOVERY), written_at=WRITTEN_AT)


def started(recovering: LedgerRecord) -> Recovery:
    recovery = Recovery(recovering, DIGESTER)
    recovery.start()
    return recovery


def vouching(since: int) -> LacReply:
    return LacReply(Status.OK, vouched_since=since)


# --- vouching -----------------------------------------------------------------------------------


def test_nothing_is_read_before_a_bookie_vouches_for_the_time_since_the_record_was_written() -> None:
    recovery = started(RECOVERING)
    assert recovery.lac_answered(0, vouching(WRITTEN_AT + 1)) == []
    assert recovery.lac_answered(1, vouching(0)) == [], "two of three are fenced"
    effects = recovery.lac_answered(2, vouching(WRITTEN_AT))
    assert [type(one) for one in effects] == [ReadFenced] * 3


@pytest.mark.parametrize(
    ("written_at", "since"), [(WRITTEN_AT, 7), (0, 1)], ids=["since then", "for all time"]
)
def test_one_that_vouches_is_enough_and_nobody_else_is_waited_for(written_at: int, since: int) -> None:
    recovery = started(replace(RECOVERING, written_at=written_at))
    recovery.lac_answered(0, vouching(since))
    assert [type(one) for one in recovery.lac_answered(1, vouching(0))] == [ReadFenced] * 3


@pytest.mark.parametrize(
    ("written_at", "since"),
    [(WRITTEN_AT, 0), (WRITTEN_AT, WRITTEN_AT + 1), (0, 2)],
    ids=["cannot tell", "came back later", "a record that does not say when it was written"],
)
def test_where_nobody_vouches_nothing_is_closed(written_at: int, since: int) -> None:
    recovery = started(replace(RECOVERING, written_at=written_at))
    recovery.lac_answered(0, vouching(since))
    recovery.lac_answered(1, vouching(since))
    error = failure(recovery.lac_failed(2, "timeout"))
    assert isinstance(error, LedgerRecoveryFailed) and not error.is_undecided
    assert "gone back to an older copy" in str(error)


def test_nor_where_one_vouches_that_could_not_be_fenced() -> None:
    recovery = started(RECOVERING)
    recovery.lac_answered(0, LacReply(Status.IO_ERROR, vouched_since=1))
    recovery.lac_answered(1, vouching(0))
    assert "gone back to an older copy" in str(failure(recovery.lac_answered(2, vouching(0))))


# --- a record that is older than the ledger ------------------------------------------------------


def test_nothing_is_asked_or_closed_by_a_record_that_names_others_which_hold_more() -> None:
    error = failure(Recovery(replace(RECOVERING, also_at=(BK3, BK4)), DIGESTER).start())
    assert isinstance(error, LedgerRecoveryFailed)
    assert "does not assign to them (b3, b4)" in str(error) and "metadata check --accept" in str(error)
