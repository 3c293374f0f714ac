"""delay_ensemble_change: a failed bookie is replaced only when a write set would lose its ack quorum."""

from __future__ import annotations

from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import CloseLane, Confirm, FindReplacements, OpenLane, RetryLater, Send

from .ledger7 import BK0, BK1, BK2, BK3, BK4, entries, proposed, record


def delaying(appended: int = 0) -> AppendPipeline:
    pipeline = AppendPipeline(record((3, 3, 2)), delay_ensemble_change=True)
    pipeline.start()
    if appended:
        pipeline.append(entries(*range(appended)))
    return pipeline


def test_the_first_failure_asks_only_whether_the_bookie_is_back() -> None:
    assert delaying().lane_failed(1, "gone") == [
        CloseLane(1),
        FindReplacements((BK0, BK1, BK2), {0: "gone"}, in_place=True),
    ]


def test_writing_goes_on_while_the_bookie_is_away() -> None:
    pipeline = delaying(1)
    pipeline.lane_failed(1, "gone")
    assert pipeline.replacements({}, {}) == [RetryLater()]
    pipeline.acked(2, 0)
    assert pipeline.acked(3, 0) == [Confirm(0)]


def test_a_bookie_that_comes_back_is_sent_all_that_is_pending() -> None:
    """And its acks from before count for nothing beyond what is confirmed."""
    pipeline = delaying(1)
    pipeline.acked(1, 0)
    pipeline.lane_failed(1, "gone")
    assert pipeline.replacements({0: BK0}, {}) == [OpenLane(4, BK0), Send(4, entries(0))]
    assert pipeline.acked(2, 0) == []
    assert pipeline.acked(4, 0) == [Confirm(0)]


def test_a_failure_that_takes_the_ack_quorum_makes_a_change_at_once() -> None:
    pipeline = delaying(1)
    pipeline.lane_failed(1, "gone")
    pipeline.replacements({}, {})
    assert pipeline.lane_failed(3, "gone too") == [
        CloseLane(3),
        FindReplacements((BK0, BK1, BK2), {0: "gone", 2: "gone too"}),
    ]
    changed = proposed(pipeline.replacements({0: BK3, 2: BK4}, {}))
    assert changed.fragments[-1].ensemble == (BK3, BK1, BK4)


def test_a_second_failure_while_the_first_is_looked_at_is_not_forgotten() -> None:
    pipeline = delaying(1)
    pipeline.lane_failed(1, "gone")
    assert pipeline.lane_failed(2, "gone too") == [CloseLane(2)]
    effects = pipeline.replacements({}, {})
    assert FindReplacements((BK0, BK1, BK2), {0: "gone", 1: "gone too"}) in effects


def test_in_a_striped_ledger_the_weakest_write_set_decides() -> None:
    """E 4, Qw 2, Qa 2: every failure takes some write set's ack quorum."""
    pipeline = AppendPipeline(record((4, 2, 2)), delay_ensemble_change=True)
    pipeline.start()
    assert pipeline.lane_failed(2, "gone") == [
        CloseLane(2),
        FindReplacements((BK0, BK1, BK2, BK3), {1: "gone"}),
    ]
