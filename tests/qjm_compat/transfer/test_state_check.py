"""What cannot be true of one acceptor's state and records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metadata.records.journal_record import (
    AcceptedRecovery,
    FinalizedSegment,
    JournalState,
    JournalStorage,
    SegmentRecord,
)
from metadata.version import Version
from qjm_compat.transfer.checking.acceptor_check import check_state
from qjm_compat.transfer.inspection.acceptor_seen import AcceptorSeen

RECORD = FinalizedSegment(1, 10, 100, -63, 1, 0)
STATE = JournalState(
    storage=JournalStorage(-63, 1, "c"),
    last_promised_epoch=2,
    last_writer_epoch=2,
    segments=(SegmentRecord(1, 100, -63, 1, 10, finalized=True), SegmentRecord(11, 101, -63, 2, 15)),
    accepted=(AcceptedRecovery(11, 15, True, 2),),
    last_finalized_start=1,
)


def wrong_with(state: JournalState, *records: FinalizedSegment) -> list[str]:
    return list(check_state(AcceptorSeen("a", Version(7), state, records)))


def test_a_state_and_its_records_are_well() -> None:
    assert wrong_with(STATE, RECORD) == []
    assert wrong_with(replace(STATE, segments=STATE.segments[1:]), RECORD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"last_writer_epoch": 3}, "its writer has epoch 3"),
        ({"last_promised_epoch": 1, "last_writer_epoch": 1}, "segment 11 is of epoch 2"),
        (
            {"segments": (*STATE.segments, replace(STATE.segments[1], ledger_id=9))},
            "occurs twice in its state",
        ),
        ({"segments": (STATE.segments[1], SegmentRecord(20, 5, -63, 2, 19))}, "segment 20 ends at txid 19"),
        (
            {"accepted": (AcceptedRecovery(11, 14, True, 2),)},
            "was accepted to end at txid 14, but ends at 15",
        ),
        (
            {"accepted": (AcceptedRecovery(16, 17, True, 2),)},
            "was accepted to end at txid 17, but ends at None",
        ),
        ({"accepted": (AcceptedRecovery(11, 15, True, 3),)}, "accepted in epoch 3, which was never promised"),
    ],
)
def test_what_cannot_be_is_told(change: dict[str, object], said: str) -> None:
    (problem, *_) = wrong_with(replace(STATE, **change), RECORD)  # type: ignore[arg-type]
    assert said in problem


def test_a_record_that_contradicts_the_state_is_told() -> None:
    assert "by its record" in wrong_with(STATE, replace(RECORD, end_txid=9))[0]
    assert "by its record" in wrong_with(STATE, replace(RECORD, ledger_id=99))[0]
    open_again = replace(STATE, segments=(replace(STATE.segments[0], finalized=False), STATE.segments[1]))
    assert "has a record, but is not finalized" in wrong_with(open_again, RECORD)[0]


def test_a_segment_that_was_finalized_last_is_there_unless_it_was_purged() -> None:
    lost = replace(STATE, segments=STATE.segments[1:])
    assert wrong_with(lost) == ["segment 1 is the last finalized one, but is missing"]
    assert wrong_with(replace(lost, purged_below=11)) == []
    assert wrong_with(replace(lost, last_finalized_start=0)) == []
