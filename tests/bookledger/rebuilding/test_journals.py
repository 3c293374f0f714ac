"""An acceptor of a journal is made again from its segments' ledgers."""

from __future__ import annotations

from dataclasses import replace

from bookledger.cluster.rebuilding.journals import RebuiltAcceptor, acceptor_of, rebuilt_acceptor
from bookledger.cluster.rebuilding.logs import EPOCHS_LEFT
from metadata.records.journal_record import FinalizedSegment, JournalState, JournalStorage, SegmentRecord
from metadata.records.ledger_record import (
    JOURNAL,
    BookieRef,
    Fragment,
    LedgerRecord,
    LedgerState,
    Shape,
)
from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER, STATE_OF_LEDGER, NewSegment

STORAGE = JournalStorage(-63, 17, "CID-1", 99)
LAYOUT = -63


def ledger(
    ledger_id: int,
    start: int,
    *,
    epoch: int = 1,
    end: int | None = None,
    closed: int | None = 3,
    state: JournalState | None = None,
) -> LedgerRecord:
    """That of a segment, closed at this entry. With an `end` it is a copy of which that was known at the beginning."""
    state = JournalState(STORAGE, epoch, epoch) if state is None else state
    said = {
        JOURNAL: b"ns1",
        ACCEPTOR_OF_LEDGER: b"main",
        STATE_OF_LEDGER: NewSegment(start, LAYOUT, epoch, end).encode_ledger_state(state),
    }
    made = LedgerRecord(
        ledger_id, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),), custom_metadata=said
    )
    if closed is None:
        return made
    return replace(made, state=LedgerState.CLOSED, last_entry=closed, length_bytes=1)


def made(*ledgers: LedgerRecord) -> RebuiltAcceptor:
    rebuilt = rebuilt_acceptor(ledgers)
    assert rebuilt is not None
    return rebuilt


def test_each_segment_ends_where_the_next_begins_and_the_last_is_in_progress() -> None:
    rebuilt = made(ledger(3, 21, epoch=2, closed=None), ledger(1, 1), ledger(2, 11))
    assert rebuilt.finalized == (
        FinalizedSegment(1, 10, 1, LAYOUT, 1, 0),
        FinalizedSegment(11, 20, 2, LAYOUT, 1, 0),
    )
    assert rebuilt.state.segments == (SegmentRecord(21, 3, LAYOUT, 2),)
    assert rebuilt.state.storage == STORAGE and rebuilt.state.last_finalized_start == 11
    assert rebuilt.doubts == ()


def test_the_epoch_is_above_all_that_any_ledger_tells_of() -> None:
    promised = JournalState(STORAGE, 7, 3, epochs_above=12)
    rebuilt = made(ledger(1, 1, epoch=3, state=promised))
    assert rebuilt.state.latest_epoch == 12 + EPOCHS_LEFT and rebuilt.state.last_writer_epoch == 3


def test_of_several_ledgers_for_a_segment_that_of_the_latest_writer_counts_and_none_that_is_empty() -> None:
    rebuilt = made(ledger(4, 1, epoch=2), ledger(1, 1), ledger(5, 1, epoch=3, closed=-1), ledger(6, 11))
    assert rebuilt.finalized == (FinalizedSegment(1, 10, 4, LAYOUT, 2, 0),)


def test_a_copy_says_where_it_ends_and_what_is_missing_behind_it_is_told() -> None:
    rebuilt = made(ledger(1, 1, end=8), ledger(2, 11, end=20))
    assert [one.end_txid for one in rebuilt.finalized] == [8, 20] and rebuilt.state.segments == ()
    assert rebuilt.doubts == ("no bookie noted the segments with txids 9 to 10",)


def test_a_ledger_whose_end_nobody_was_told_has_to_be_recovered() -> None:
    rebuilt = made(ledger(1, 1, closed=None), ledger(2, 11, closed=None))
    assert rebuilt.doubts == ("ledger 1 must be recovered: it ends with txid 10",)


def test_what_was_purged_or_is_another_namespaces_does_not_come_back() -> None:
    other = JournalState(replace(STORAGE, namespace_id=18), 1, 1)
    purged = JournalState(STORAGE, 5, 5, purged_below=11)
    rebuilt = made(
        ledger(9, 5, state=other), ledger(1, 1), ledger(2, 11), ledger(3, 21, epoch=5, state=purged)
    )
    assert [one.start_txid for one in rebuilt.finalized] == [11]


def test_of_an_older_program_nobody_knows_whose_edits_it_holds() -> None:
    old = replace(ledger(1, 1), custom_metadata={JOURNAL: b"ns1", ACCEPTOR_OF_LEDGER: b"main"})
    assert acceptor_of(old) == ("ns1", "main") and rebuilt_acceptor([old]) is None
    assert acceptor_of(replace(old, custom_metadata={})) is None
