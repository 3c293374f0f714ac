"""What an acceptor's state and records say together."""

from __future__ import annotations

from dataclasses import replace

from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage, SegmentRecord
from metadata.version import Version
from qjm_compat.transfer.inspection.acceptor_seen import AcceptorSeen

RECORD = FinalizedSegment(1, 10, 100, -63, 1, 0)
FINAL = SegmentRecord(11, 101, -63, 1, 20, finalized=True)
OPEN = SegmentRecord(21, 102, -63, 2)
STATE = JournalState(
    storage=JournalStorage(-63, 1, "c"),
    segments=(FINAL, OPEN),
    replaced_ledgers=(103,),
    previous=JournalState(segments=(replace(OPEN, ledger_id=104),), replaced_ledgers=(105,)),
)
SEEN = AcceptorSeen("a", Version(7), STATE, (RECORD,))


def test_a_segment_is_told_once_by_its_record_or_by_the_state() -> None:
    assert (SEEN.finalized, SEEN.latest, SEEN.in_progress) == ((RECORD,), (FINAL, OPEN), (OPEN,))
    recorded = replace(SEEN, records=(RECORD, FinalizedSegment(11, 20, 101, -63, 1, 0)))
    assert recorded.latest == (OPEN,)
    assert [seen.last_final_start for seen in (SEEN, recorded)] == [11, 11]
    assert [SEEN.has_final(txid) for txid in (1, 11, 21)] == [True, True, False]


def test_what_was_purged_is_no_segment_any_more_and_its_ledger_still_waits_to_be_deleted() -> None:
    purged = replace(SEEN, state=replace(STATE, purged_below=11))
    assert purged.finalized == ()
    assert purged.needs(100)


def test_ledgers_are_needed_by_segments_by_what_will_delete_them_and_by_a_rollback() -> None:
    assert [SEEN.needs(ledger_id) for ledger_id in range(100, 107)] == [True] * 6 + [False]
