"""The append pipeline with deferred sync: what a bookie has written counts for that bookie, on that lane."""

from __future__ import annotations

from dataclasses import replace

from bookie.wire import Columns, of_payloads
from ledgers.protocol.append import AppendPipeline
from ledgers.protocol.effects import (
    Accept,
    AppendEffect,
    ChangeRecord,
    CloseLane,
    FindReplacements,
    Force,
    OpenLane,
    RetryLater,
)
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape

ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(1, 4))
SPARE = BookieRef("b4", "i")


def entry(entry_id: int) -> Columns:
    return of_payloads(entry_id, [b"x"], b"d")


def started() -> AppendPipeline:
    """Three lanes, 1 to 3, with entry 0 sent on each."""
    pipeline = AppendPipeline(LedgerRecord(7, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),)), deferred_sync=True)
    lanes = [effect.lane for effect in pipeline.start() if isinstance(effect, OpenLane)]
    assert lanes == [1, 2, 3]
    pipeline.append(entry(0))
    return pipeline


def accepted(effects: list[AppendEffect]) -> list[int]:
    return [effect.last_entry for effect in effects if isinstance(effect, Accept)]


def test_an_entry_is_accepted_when_an_ack_quorum_has_written_it() -> None:
    pipeline = started()
    assert accepted(pipeline.written(1, 0)) == []
    assert accepted(pipeline.written(3, 0)) == [0]


def test_what_a_lane_says_after_it_failed_is_not_counted() -> None:
    pipeline = started()
    pipeline.lane_failed(1, "gone")
    assert accepted(pipeline.written(1, 0)) == []
    assert accepted(pipeline.written(2, 0)) == []
    assert accepted(pipeline.written(3, 0)) == [0]


def test_what_a_bookie_had_written_is_not_counted_for_the_one_in_its_place() -> None:
    """F8: the new one has none of it, and two copies would be one."""
    pipeline = started()
    assert accepted(pipeline.written(1, 0)) == []
    asked = pipeline.lane_failed(1, "gone")
    assert any(isinstance(effect, FindReplacements) for effect in asked)
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    (opened,) = [e for e in pipeline.changed(change.record) if isinstance(e, OpenLane)]
    assert opened.bookie == SPARE
    assert accepted(pipeline.written(2, 0)) == [], "only b2 has it"
    assert accepted(pipeline.written(opened.lane, 0)) == [0]


def test_what_a_bookie_had_written_is_not_counted_when_it_comes_back_on_a_new_lane() -> None:
    """It may have crashed in between: written is not on disk."""
    pipeline = started()
    assert accepted(pipeline.written(1, 0)) == []
    pipeline.lane_failed(1, "restarted")
    effects = pipeline.replacements({0: ENSEMBLE[0]}, {})
    (opened,) = [effect for effect in effects if isinstance(effect, OpenLane)]
    assert accepted(pipeline.written(2, 0)) == []
    assert accepted(pipeline.written(opened.lane, 0)) == [0]


def test_a_bookie_that_was_taken_back_and_fails_again_is_looked_at_later_until_it_has_answered() -> None:
    """A full disk lets a lane open and refuses what comes: nobody asks for it in a tight loop."""
    pipeline = started()
    pipeline.lane_failed(1, "restarted")
    (opened,) = [e for e in pipeline.replacements({0: ENSEMBLE[0]}, {}) if isinstance(e, OpenLane)]
    assert pipeline.lane_failed(opened.lane, "no space") == [CloseLane(opened.lane), RetryLater()]
    assert any(isinstance(e, FindReplacements) for e in pipeline.retry_replacements())
    (opened,) = [e for e in pipeline.replacements({0: ENSEMBLE[0]}, {}) if isinstance(e, OpenLane)]
    pipeline.acked(opened.lane, 0)
    after_an_answer = pipeline.lane_failed(opened.lane, "restarted")
    assert any(isinstance(effect, FindReplacements) for effect in after_an_answer)


def forces(effects: list[AppendEffect]) -> list[int]:
    return [effect.lane for effect in effects if isinstance(effect, Force)]


def test_a_force_is_repeated_to_a_bookie_that_takes_a_place_meanwhile_and_once_it_is_done_no_more() -> None:
    pipeline = started()
    assert forces(pipeline.force()) == [1, 2, 3]
    assert forces(pipeline.force()) == [], "nothing was pushed since"
    pipeline.lane_failed(1, "gone")
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    effects = pipeline.changed(change.record)
    (opened,) = [effect for effect in effects if isinstance(effect, OpenLane)]
    assert forces(effects) == [opened.lane]
    pipeline.acked(2, 0)
    pipeline.acked(3, 0)
    assert pipeline.last_add_confirmed == 0
    pipeline.lane_failed(2, "gone")
    assert forces(pipeline.replacements({1: ENSEMBLE[1]}, {})) == []


def test_a_close_asked_for_during_a_change_comes_behind_it_and_only_once() -> None:
    pipeline = started()
    pipeline.lane_failed(1, "gone")
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    assert pipeline.close() == []
    assert pipeline.close() == []
    (closing,) = [e for e in pipeline.changed(change.record) if isinstance(e, ChangeRecord)]
    assert closing.record.is_closed
    assert pipeline.close() == []


def test_a_writer_that_is_to_close_looks_for_no_replacement() -> None:
    pipeline = started()
    pipeline.close()
    assert pipeline.lane_failed(1, "gone") == [CloseLane(1)]


def test_M1_a_change_whose_answer_was_lost_is_known_by_its_last_fragment() -> None:
    """Of two fragments only the last one tells whose the change is."""
    pipeline = started()
    pipeline.acked(2, 0)
    pipeline.acked(3, 0)
    pipeline.append(entry(1))
    pipeline.lane_failed(1, "gone")
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    assert len(change.record.fragments) == 2
    effects = pipeline.conflicted(replace(change.record, custom_metadata={"touched": b"meanwhile"}))
    assert [effect.bookie for effect in effects if isinstance(effect, OpenLane)] == [SPARE]
