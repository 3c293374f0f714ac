"""C1: closing waits for copies, and is one compare-and-swap at the LAC, which never overrides a recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledgers.errors import LedgerError, LedgerFenced, MetadataUnavailable, NoSuchLedger
from ledgers.protocol.ledger_effects import CloseLane, Confirm, Finish, OpenLane, Send
from metadata.records.ledger_record import LedgerRecord, LedgerState

from .ledger7 import BK0, BK1, BK2, BK3, BK5, entries, failure, proposed, record, writer

SMALL = (3, 3, 2)
LANES = [CloseLane(1), CloseLane(2), CloseLane(3)]


def test_C1_a_writer_closes_with_one_change_at_its_lac() -> None:
    pipeline = writer(SMALL, appended=3, confirmed=3)
    asked = proposed(pipeline.close())
    assert asked == record(SMALL).closed(2, 6)
    assert pipeline.changed(asked) == [*LANES, Finish(None)]
    assert pipeline.record == asked


def test_C1_the_end_is_the_lac_and_not_the_last_entry_pushed() -> None:
    """C1, F18: and what is acknowledged while the close is in flight is not confirmed any more."""
    pipeline = writer(SMALL, appended=5, confirmed=3)
    asked = proposed(pipeline.close())
    assert (asked.last_entry, asked.length_bytes) == (2, 6)
    assert pipeline.acked(1, 4) + pipeline.acked(2, 4) == []
    assert pipeline.changed(asked) == [*LANES, Finish(None)]


def test_C1_an_empty_ledger_closes_before_its_first_entry() -> None:
    assert proposed(writer(SMALL).close()) == record(SMALL).closed(-1, 0)


def test_C1_closing_drops_a_fragment_in_which_nothing_was_confirmed() -> None:
    pipeline = writer(SMALL, appended=4, confirmed=3)
    pipeline.lane_failed(2, "gone")
    pipeline.changed(proposed(pipeline.replacements({1: BK3}, {})))
    assert proposed(pipeline.close()) == record(SMALL).closed(2, 6)


def test_C1_found_closed_at_the_same_entry_is_success() -> None:
    """A recoverer was as fast, and came to the same end."""
    pipeline = writer(SMALL, appended=3, confirmed=3)
    pipeline.close()
    found = record(SMALL, (0, (BK0, BK1, BK5))).closed(2, 6)
    assert pipeline.conflicted(found) == [*LANES, Finish(None)]
    assert pipeline.record == found


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (record(SMALL).closed(3, 8), LedgerFenced),
        (record(SMALL).closed(1, 4), LedgerFenced),
        (record(SMALL, state=LedgerState.IN_RECOVERY), LedgerFenced),
        (None, NoSuchLedger),
    ],
    ids=["closed later", "closed earlier", "in recovery", "deleted"],
)
def test_C1_closing_never_overrides_what_others_decided(
    found: LedgerRecord | None, error: type[LedgerError]
) -> None:
    pipeline = writer(SMALL, appended=4, confirmed=3)
    pipeline.close()
    assert isinstance(failure(pipeline.conflicted(found)), error)
    assert pipeline.has_ended


def test_C1_a_conflict_with_an_open_record_closes_on_top_of_it() -> None:
    """An earlier fragment was repaired meanwhile."""
    pipeline = writer(SMALL, appended=4, confirmed=3)
    pipeline.lane_failed(2, "gone")
    changed = proposed(pipeline.replacements({1: BK3}, {}))
    pipeline.changed(changed)
    for lane in (1, 3, 4):
        pipeline.acked(lane, 3)
    pipeline.close()
    first, last = changed.fragments
    repaired = replace(changed, fragments=(replace(first, ensemble=(BK0, BK1, BK5)), last))
    assert proposed(pipeline.conflicted(repaired)) == repaired.closed(3, 8)


def test_C1_closing_waits_for_a_change_that_is_in_flight() -> None:
    """What its outcome allows to be confirmed is inside."""
    pipeline = writer(SMALL, appended=4, confirmed=3)
    pipeline.lane_failed(2, "gone")
    asked = proposed(pipeline.replacements({1: BK3}, {}))
    pipeline.acked(1, 3)
    pipeline.acked(3, 3)
    assert pipeline.close() == []
    assert pipeline.changed(asked) == [OpenLane(4, BK3), Send(4, entries(3)), Confirm(3)]
    assert proposed(pipeline.acked(4, 3)) == asked.closed(3, 8)


def test_C1_closing_waits_for_copies_that_are_on_their_way() -> None:
    """C1, W6: the third bookie has acknowledged through e3 of ten."""
    pipeline = writer(SMALL, appended=10)
    for lane, through in ((3, 3), (1, 9), (2, 9)):
        pipeline.acked(lane, through)
    assert pipeline.close() == []
    assert pipeline.acked(3, 8) == []
    assert proposed(pipeline.acked(3, 9)).fragments[0].lacking == ()


def test_C1_a_close_whose_outcome_stays_unknown_is_an_error() -> None:
    """Whoever opens the ledger next finds out."""
    pipeline = writer(SMALL)
    pipeline.close()
    error = MetadataUnavailable("silent")
    assert pipeline.change_failed(error) == [*LANES, Finish(error)]


def test_a_failed_bookie_is_not_replaced_while_the_ledger_closes() -> None:
    pipeline = writer(SMALL, appended=1, confirmed=1)
    asked = proposed(pipeline.close())
    assert pipeline.lane_failed(1, "gone") == [CloseLane(1)]
    assert pipeline.changed(asked) == [CloseLane(2), CloseLane(3), Finish(None)]


def test_a_search_that_is_answered_while_the_ledger_closes_changes_nothing() -> None:
    pipeline = writer(SMALL, appended=1, confirmed=1)
    pipeline.lane_failed(1, "gone")
    asked = proposed(pipeline.close())
    assert pipeline.replacements({0: BK3}, {}) == []
    assert pipeline.changed(asked) == [CloseLane(2), CloseLane(3), Finish(None)]


def test_a_writer_that_has_ended_has_nothing_to_close() -> None:
    pipeline = writer(SMALL)
    pipeline.fail(LedgerFenced(7, "b1"))
    assert pipeline.close() == []
    assert pipeline.record.fragments[0].ensemble == (BK0, BK1, BK2)
