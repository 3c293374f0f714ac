"""Deferred sync: entries are accepted when they are in an ack quorum's logs, confirmed when they are on its disks."""

from __future__ import annotations

from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import Accept, AppendEffect, CloseLane, Confirm, Force, OpenLane, Send

from .ledger7 import BK1, BK2, BK3, entries, proposed, record


def deferring(*ids: int) -> AppendPipeline:
    """A writer over {BK0, BK1, BK2}, on lanes 1 to 3, that has appended these entries."""
    pipeline = AppendPipeline(record((3, 3, 2)), deferred_sync=True)
    pipeline.start()
    if ids:
        pipeline.append(entries(*ids))
    return pipeline


def test_an_entry_is_accepted_by_an_ack_quorum_of_logs_and_not_confirmed() -> None:
    pipeline = deferring(0, 1)
    assert pipeline.written(1, 1) == []
    assert pipeline.written(3, 0) == [Accept(0)]
    assert pipeline.last_add_confirmed == -1


def test_the_lac_moves_when_an_ack_quorum_has_it_on_disk() -> None:
    """W2, W3"""
    pipeline = deferring(0, 1)
    pipeline.written(1, 1)
    pipeline.written(2, 1)
    assert pipeline.force() == [Force(1), Force(2), Force(3)]
    assert pipeline.acked(1, 1) == []
    assert pipeline.acked(2, 1) == [Confirm(1)]


def test_what_is_on_disk_at_once_is_accepted_and_confirmed_together() -> None:
    """A bookie that had to sync for somebody else answers OK to a deferred frame."""
    pipeline = deferring(0)
    pipeline.acked(1, 0)
    assert pipeline.acked(2, 0) == [Accept(0), Confirm(0)]


def test_what_is_written_on_one_disk_and_synced_on_another_is_accepted_only() -> None:
    pipeline = deferring(0)
    pipeline.acked(1, 0)
    assert pipeline.written(2, 0) == [Accept(0)]


def test_nothing_is_forced_twice() -> None:
    pipeline = deferring(0)
    pipeline.force()
    assert pipeline.force() == []
    pipeline.append(entries(1))
    assert pipeline.force() == [Force(1), Force(2), Force(3)]


def test_a_force_of_nothing_asks_for_nothing() -> None:
    assert deferring().force() == []


def test_a_writer_that_puts_off_no_sync_forces_nothing() -> None:
    pipeline = AppendPipeline(record((3, 3, 2)))
    pipeline.start()
    pipeline.append(entries(0))
    assert pipeline.force() == []


def replaced_after_a_force() -> tuple[AppendPipeline, list[AppendEffect]]:
    """e0 and e1 were written everywhere and forced; BK1 has synced, BK0 failed and was replaced by BK3."""
    pipeline = deferring(0, 1)
    for lane in (1, 2, 3):
        pipeline.written(lane, 1)
    pipeline.force()
    pipeline.acked(2, 1)
    assert CloseLane(1) in pipeline.lane_failed(1, "gone")
    assert proposed(pipeline.replacements({0: BK3}, {})).fragments[-1].first_entry == 0
    return pipeline, pipeline.changed(record((3, 3, 2), (0, (BK3, BK1, BK2))))


def test_a_replacement_gets_all_that_is_not_on_disk_and_is_forced_too() -> None:
    """F8: what was accepted from the replaced bookie's log counts for nothing any more."""
    pipeline, effects = replaced_after_a_force()
    assert effects[:2] == [OpenLane(4, BK3), Send(4, entries(0, 1))]
    assert Force(4) in effects
    assert pipeline.last_add_confirmed == -1
    assert pipeline.acked(4, 1) == [Confirm(1)]


def test_an_entry_is_accepted_once_whatever_is_withdrawn_later() -> None:
    pipeline, effects = replaced_after_a_force()
    assert not any(isinstance(effect, Accept) for effect in effects)
    assert pipeline.written(4, 1) == []


def test_a_replaced_bookies_word_that_it_has_written_counts_for_nothing() -> None:
    """F9"""
    pipeline = deferring(0)
    pipeline.lane_failed(1, "slow")
    pipeline.replacements({0: BK3}, {})
    pipeline.changed(record((3, 3, 2), (0, (BK3, BK1, BK2))))
    assert pipeline.written(1, 0) == []
    assert pipeline.written(2, 0) == []
    assert pipeline.written(4, 0) == [Accept(0)]


def test_nothing_is_accepted_or_confirmed_while_a_change_is_in_flight() -> None:
    """F7"""
    pipeline = deferring(0)
    pipeline.lane_failed(1, "gone")
    pipeline.replacements({0: BK3}, {})
    assert pipeline.written(2, 0) + pipeline.written(3, 0) + pipeline.acked(2, 0) + pipeline.acked(3, 0) == []
    effects = pipeline.changed(record((3, 3, 2), (0, (BK3, BK1, BK2))))
    assert effects[-2:] == [Accept(0), Confirm(0)]


def test_a_ledger_is_closed_at_what_was_confirmed() -> None:
    """C1: what was accepted only is not in the ledger; the handle forces it first."""
    pipeline = deferring(0, 1)
    for lane in (1, 2, 3):
        pipeline.written(lane, 1)
    pipeline.acked(1, 0)
    pipeline.acked(2, 0)
    assert pipeline.close() == [Force(1), Force(2), Force(3)]
    assert proposed(pipeline.acked(3, 0)).last_entry == 0
