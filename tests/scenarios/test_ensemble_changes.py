"""Replacing bookies: one compare-and-swap, and nothing confirmed on bookies the metadata does not name.

W3: all acks of replaced positions are withdrawn, and everything pending is sent again before anything is confirmed.
W4: a change is one CAS from LAC+1, only while OPEN; until it stands the writer is as it was, and so is the LAC.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledgers.errors import LedgerError, LedgerFenced, MetadataUnavailable, NoSuchLedger
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    ChangeRecord,
    CloseLane,
    Confirm,
    FindReplacements,
    OpenLane,
    RetryLater,
    Send,
)
from metadata.records.ledger_record import LedgerRecord, LedgerState

from .ledger7 import BK0, BK1, BK2, BK3, BK4, BK5, asks_for, entries, failure, proposed, record, writer

SMALL = (3, 3, 2)


def changing(appended: int = 5, confirmed: int = 3) -> tuple[AppendPipeline, LedgerRecord]:
    """BK1 has failed and BK3 is proposed in its place; the change is in flight."""
    pipeline = writer(SMALL, appended=appended, confirmed=confirmed)
    pipeline.lane_failed(2, "gone")
    return pipeline, proposed(pipeline.replacements({1: BK3}, {}))


def test_W4_the_new_fragment_begins_after_the_last_confirmed_entry() -> None:
    """With the length of what is before it."""
    _, asked = changing()
    assert asked == record(SMALL, (0, (BK0, BK1, BK2)), (3, (BK0, BK3, BK2)))


def test_W4_a_fragment_in_which_nothing_is_confirmed_is_replaced() -> None:
    """Fragments stay strictly increasing."""
    pipeline, asked = changing(confirmed=3)
    pipeline.changed(asked)
    pipeline.lane_failed(4, "gone too")
    again = proposed(pipeline.replacements({1: BK4}, {}))
    assert again == record(SMALL, (0, (BK0, BK1, BK2)), (3, (BK0, BK4, BK2)))


def test_W4_new_bookies_are_used_only_when_the_change_is_known_to_stand() -> None:
    """W4, F6: before that they are sent nothing, and what is appended meanwhile goes to the others."""
    pipeline, asked = changing()
    assert pipeline.append(entries(5)) == [Send(1, entries(5)), Send(3, entries(5))]
    assert pipeline.record == record(SMALL)
    assert pipeline.changed(asked) == [
        OpenLane(4, BK3),
        Send(4, entries(3, 4)),
        Send(4, entries(5)),
    ]
    assert pipeline.record == asked


def test_W4_the_lac_stands_still_while_a_change_is_in_flight() -> None:
    """W4, F7: 2/2/1, LAC 4; the change writes 5:{BK2,BK3}; acks of e5, e6 arrive before its answer."""
    pipeline = writer((2, 2, 1), appended=7, confirmed=5)
    pipeline.lane_failed(1, "gone")
    assert pipeline.lane_failed(2, "gone") == [CloseLane(2)]
    assert pipeline.replacements({0: BK2}, {}) == [
        ChangeRecord(record((2, 2, 1), (0, (BK0, BK1)), (5, (BK2, BK1))))
    ]
    pipeline = writer((2, 2, 1), appended=7, confirmed=5)
    pipeline.lane_failed(1, "gone")
    asked = proposed(pipeline.replacements({0: BK2}, {}))
    assert pipeline.acked(2, 6) == []
    assert pipeline.last_add_confirmed == 4
    assert pipeline.changed(asked) == [OpenLane(3, BK2), Send(3, entries(5, 6)), Confirm(6)]


def test_W3_all_acks_of_a_replaced_position_are_withdrawn_and_all_is_sent_again_before_any_confirm() -> None:
    """W3, F8: 4/2/2 {BK0,BK1,BK2,BK3}; e0 waits for BK0; e1, e2 are complete behind it; e5 fails on BK2."""
    pipeline = writer((4, 2, 2), appended=6)
    pipeline.acked(2, 1)  # BK1 has e0, e1
    pipeline.acked(3, 2)  # BK2 has e1, e2
    pipeline.acked(4, 3)  # BK3 has e2, e3
    assert pipeline.lane_failed(3, "e5 failed") == [
        CloseLane(3),
        asks_for((BK0, BK1, BK2, BK3), p2="e5 failed"),
    ]
    asked = proposed(pipeline.replacements({2: BK4}, {}))
    assert asked == record((4, 2, 2), (0, (BK0, BK1, BK4, BK3)))
    assert pipeline.acked(1, 0) == []  # e0 is complete now, but a change is in flight
    # e0 never was on BK2 and may be confirmed; e1 and e2 have only one copy left in what is named.
    assert pipeline.changed(asked) == [OpenLane(5, BK4), Send(5, entries(1, 2, 5)), Confirm(0)]
    assert pipeline.acked(5, 1) == [Confirm(1)]
    assert pipeline.acked(5, 2) == [Confirm(2)]


def test_W3_entries_are_sent_again_to_the_new_bookie_of_their_write_set_only() -> None:
    """W3, F9: a striped ledger's resends respect the write set."""
    pipeline = writer((5, 3, 2), appended=5)
    pipeline.lane_failed(1, "gone")
    asked = proposed(pipeline.replacements({0: BK5}, {}))
    assert pipeline.changed(asked) == [OpenLane(6, BK5), Send(6, entries(0, 3, 4))]


def test_W3_a_replaced_bookies_acks_of_entries_after_the_lac_are_lost_even_if_it_had_them_all() -> None:
    """3/3/2, e3 and e4 on BK0 and BK1, only e3 on BK2; BK1 goes."""
    pipeline = writer(SMALL, appended=5, confirmed=3)
    pipeline.acked(2, 4)
    pipeline.lane_failed(2, "gone")
    asked = proposed(pipeline.replacements({1: BK3}, {}))
    pipeline.acked(1, 4)
    pipeline.acked(3, 3)
    assert pipeline.changed(asked) == [OpenLane(4, BK3), Send(4, entries(3, 4)), Confirm(3)]
    assert pipeline.acked(4, 4) == [Confirm(4)]


def test_W3_the_acks_of_a_failed_bookie_count_while_the_metadata_names_it() -> None:
    """What it acknowledged is on its disk, and it is still named."""
    pipeline = writer((3, 3, 2), appended=2)
    pipeline.acked(1, 0)
    pipeline.lane_failed(1, "gone")
    assert pipeline.acked(2, 1) == [Confirm(0)]


def test_a_bookie_that_fails_while_a_change_is_in_flight_is_looked_for_as_soon_as_it_stands() -> None:
    """Its failure must not wait for the pause that follows a search in vain."""
    pipeline, asked = changing()
    assert pipeline.lane_failed(3, "gone too") == [CloseLane(3)]
    assert pipeline.changed(asked) == [
        OpenLane(4, BK3),
        Send(4, entries(3, 4)),
        RetryLater(),
        FindReplacements((BK0, BK3, BK2), {2: "gone too"}),
    ]


def test_a_place_searched_for_in_vain_waits_for_the_pause_though_another_was_replaced() -> None:
    pipeline = writer((5, 3, 2))
    pipeline.lane_failed(1, "gone")
    pipeline.lane_failed(3, "gone too")
    pipeline.replacements({}, {})
    asked = proposed(pipeline.replacements({0: BK5}, {}))
    assert pipeline.changed(asked) == [OpenLane(6, BK5)]  # the pause after the first search still runs
    assert pipeline.retry_replacements() == [
        FindReplacements((BK5, BK1, BK2, BK3, BK4), {2: "gone too"}),
    ]


def test_a_returned_bookie_and_a_new_one_are_taken_in_one_step() -> None:
    """The returned one needs no change of metadata, the new one does."""
    pipeline = writer((5, 3, 2), appended=1)
    pipeline.lane_failed(1, "restarting")
    pipeline.replacements({}, {})
    pipeline.lane_failed(2, "gone")
    assert pipeline.replacements({0: BK0, 1: BK5}, {}) == [
        OpenLane(6, BK0),
        Send(6, entries(0)),
        ChangeRecord(record((5, 3, 2), (0, (BK0, BK5, BK2, BK3, BK4)))),
    ]


def test_W4_a_change_that_meets_a_recovery_ends_the_writer() -> None:
    """W4, F16a: IN_RECOVERY landed first; nothing that is pending is confirmed."""
    pipeline, _ = changing()
    pipeline.acked(1, 4)
    effects = pipeline.conflicted(record(SMALL, state=LedgerState.IN_RECOVERY))
    error = failure(effects)
    assert isinstance(error, LedgerFenced)
    assert error.first_unconfirmed == 3
    assert [type(effect) for effect in effects] == [CloseLane, CloseLane, type(effects[-1])]
    assert pipeline.acked(3, 4) == []


@pytest.mark.parametrize(
    ("found", "error", "why"),
    [
        (record(SMALL).closed(2, 6), LedgerFenced, "closed at entry 2"),
        (record(SMALL, (0, (BK5, BK1, BK2))), LedgerFenced, ""),
        (None, NoSuchLedger, ""),
    ],
    ids=["recovered and closed", "another's ensemble", "deleted"],
)
def test_W4_a_change_that_meets_what_others_decided_ends_the_writer(
    found: LedgerRecord | None, error: type[LedgerError], why: str
) -> None:
    """W4, F15: a ledger has one writer, and an idle one finds out last."""
    pipeline, _ = changing()
    ended = failure(pipeline.conflicted(found))
    assert isinstance(ended, error) and why in str(ended)


def test_W4_a_change_whose_outcome_stays_unknown_ends_the_writer() -> None:
    """W4, F17: taking it for a failure or for a success would both be wrong."""
    pipeline, _ = changing()
    error = MetadataUnavailable("silent")
    pipeline.acked(1, 4)
    assert failure(pipeline.change_failed(error)) is error
    assert error.first_unconfirmed == 3
    assert pipeline.acked(3, 4) == []


def test_W4_the_writers_own_change_is_recognised_though_something_was_changed_after_it() -> None:
    """W4, F17: its answer was lost, and an earlier fragment was repaired on top of it."""
    pipeline, _ = changing()
    found = record(SMALL, (0, (BK0, BK5, BK2)), (3, (BK0, BK3, BK2)))
    assert pipeline.conflicted(found) == [OpenLane(4, BK3), Send(4, entries(3, 4))]
    assert pipeline.record == found


def test_W4_a_conflict_with_a_repair_of_an_earlier_fragment_tries_again_on_top_of_it() -> None:
    """Still nothing is confirmed until the second change stands."""
    pipeline, asked = changing()
    pipeline.changed(asked)
    for lane in (1, 3):
        pipeline.acked(lane, 4)
    pipeline.lane_failed(1, "gone")
    pipeline.append(entries(5))
    proposed(pipeline.replacements({0: BK4}, {}))
    repaired = record(SMALL, (0, (BK0, BK5, BK2)), (3, (BK0, BK3, BK2)))
    again = record(SMALL, (0, (BK0, BK5, BK2)), (3, (BK0, BK3, BK2)), (5, (BK4, BK3, BK2)))
    assert pipeline.conflicted(repaired) == [ChangeRecord(again.with_lacking(1, 3, 4))]
    assert pipeline.acked(3, 5) + pipeline.acked(4, 5) == []
    assert pipeline.changed(again) == [OpenLane(5, BK4), Send(5, entries(5)), Confirm(5)]


def test_an_answer_to_a_search_that_comes_after_the_end_changes_nothing() -> None:
    pipeline = writer(SMALL)
    pipeline.lane_failed(1, "gone")
    pipeline.fail(MetadataUnavailable("silent"))
    assert pipeline.replacements({0: BK3}, {}) == []
    assert pipeline.changed(replace(pipeline.record)) == []
    assert pipeline.conflicted(None) == []
