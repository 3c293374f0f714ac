"""The append machine by itself, where bookies are slow.

W6: an entry with its ack quorum waits for nobody; a bookie that is behind is replaced where there is another; and the
record says which confirmed entries a copy may lack.
"""

from __future__ import annotations

from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import ChangeRecord, CloseLane, Confirm, OpenLane, RetryLater, Send
from metadata.records.ledger_record import Lacking

from .ledger7 import BK0, BK1, BK2, BK3, asks_for, entries, in_recovery, page, proposed, record, told, writer

SHAPE = (3, 3, 2)
ALL = (BK0, BK1, BK2)


def with_lane_3_behind(*, delay: bool = False) -> AppendPipeline:
    """e0 to e9 are confirmed by two bookies; the third has acknowledged through e3."""
    pipeline = AppendPipeline(record(SHAPE), delay_ensemble_change=delay)
    pipeline.start()
    pipeline.append(entries(*range(10)))
    for lane, through in ((3, 3), (1, 9), (2, 9)):
        pipeline.acked(lane, through)
    assert pipeline.last_add_confirmed == 9
    return pipeline


def test_W6_a_slow_bookie_delays_no_entry_that_has_its_ack_quorum() -> None:
    """Lane 3 never answers."""
    pipeline = writer((3, 3, 2))
    for entry_id in range(50):
        pipeline.append(entries(entry_id))
        pipeline.acked(1, entry_id)
        assert pipeline.acked(2, entry_id) == [Confirm(entry_id)]
    assert pipeline.pending_bytes == 0


def test_W6_another_bookie_is_looked_for_in_place_of_one_that_is_behind() -> None:
    """It goes on receiving meanwhile."""
    pipeline = with_lane_3_behind()
    assert pipeline.lane_behind(3, "slow") == [asks_for(ALL, p2="slow")]
    assert pipeline.is_behind
    assert Send(3, entries(10)) in pipeline.append(entries(10))


def test_W6_where_there_is_another_it_takes_the_place_and_the_record_says_what_the_old_copy_lacks() -> None:
    """W6, W3"""
    pipeline = with_lane_3_behind()
    pipeline.append(entries(10))
    pipeline.lane_behind(3, "slow")
    asked = proposed(pipeline.replacements({2: BK3}, {}))
    assert asked.fragments[0].lacking == (Lacking(2, 4, 9),)
    assert pipeline.changed(asked) == [CloseLane(3), OpenLane(4, BK3), Send(4, entries(10))]
    assert not pipeline.is_behind


def test_W6_where_there_is_no_other_it_keeps_its_place_and_another_is_looked_for_later() -> None:
    """That it answers when it is asked is no news."""
    pipeline = with_lane_3_behind()
    pipeline.lane_behind(3, "slow")
    assert pipeline.replacements({2: BK2}, {}) == [RetryLater()]
    assert pipeline.is_behind
    assert pipeline.retry_replacements() == [asks_for(ALL, p2="slow")]


def test_W6_one_that_has_caught_up_stays_though_another_was_found() -> None:
    pipeline = with_lane_3_behind()
    pipeline.lane_behind(3, "slow")
    assert pipeline.lane_behind(3, "") == []
    assert not pipeline.is_behind
    assert pipeline.replacements({2: BK3}, {}) == []
    assert pipeline.acked(3, 9) == []


def test_W6_one_that_is_behind_and_fails_is_a_failed_one() -> None:
    """W6, W5"""
    pipeline = with_lane_3_behind()
    pipeline.lane_behind(3, "slow")
    pipeline.replacements({}, {})
    assert pipeline.lane_failed(3, "gone") == [CloseLane(3), asks_for(ALL, p2="gone")]
    assert not pipeline.is_behind


def test_closing_gives_a_copy_up_with_its_lane_and_says_what_it_lacks() -> None:
    """C1, W6"""
    pipeline = with_lane_3_behind()
    pipeline.close()
    pipeline.acked(3, 5)
    given_up, asked = pipeline.lane_failed(3, "no answer")
    assert given_up == CloseLane(3) and isinstance(asked, ChangeRecord)
    assert asked.record.fragments[0].lacking == (Lacking(2, 6, 9),)


def test_W6_a_bookie_that_came_back_lacks_what_was_confirmed_without_it() -> None:
    """Only what is pending is sent to it again."""
    pipeline = with_lane_3_behind()
    pipeline.append(entries(10))
    pipeline.lane_failed(3, "gone")
    assert pipeline.replacements({2: BK2}, {}) == [OpenLane(4, BK2), Send(4, entries(10))]
    pipeline.acked(4, 10)
    pipeline.acked(1, 10)
    pipeline.close()
    asked = proposed(pipeline.acked(2, 10))
    assert asked.fragments[0].lacking == (Lacking(2, 4, 9),)


def test_W6_what_was_under_way_at_a_change_and_has_arrived_is_lacking_no_longer() -> None:
    """BK1 has e4 to e9 only after BK0 was replaced."""
    pipeline = writer(SHAPE)
    pipeline.append(entries(*range(10)))
    for lane, through in ((2, 3), (1, 9), (3, 9)):
        pipeline.acked(lane, through)
    pipeline.lane_failed(1, "gone")
    asked = proposed(pipeline.replacements({0: BK3}, {}))
    assert asked.fragments[0].lacking == (Lacking(1, 4, 9),)
    pipeline.changed(asked)
    pipeline.acked(2, 9)
    assert proposed(pipeline.close()).fragments[0].lacking == ()


def test_W6_a_striped_copy_lacks_only_entries_that_belong_on_it() -> None:
    """W6, W1: position 2 of three holds e1, e2, e4, e5, …"""
    pipeline = writer((3, 2, 1))
    pipeline.append(entries(*range(7)))
    pipeline.acked(1, 6)
    assert pipeline.acked(2, 6) == [Confirm(6)]
    pipeline.close()
    asked = pipeline.lane_failed(3, "gone")[-1]
    assert isinstance(asked, ChangeRecord)
    assert asked.record.fragments[0].lacking == (Lacking(2, 1, 5),)


def test_W6_a_recovery_calls_lacking_what_it_did_not_walk() -> None:
    """Nobody knows who confirmed e0 to e4."""
    recovery = in_recovery(SHAPE)
    recovery.start()
    for position in (0, 1):
        recovery.lac_answered(position, told(4))
    recovery.read_answered(0, page())
    (fragment,) = proposed(recovery.read_answered(1, page())).fragments
    assert fragment.lacking == (Lacking(0, 0, 4), Lacking(1, 0, 4), Lacking(2, 0, 4))
