"""The append pipeline with deferred sync: what a bookie has written counts for that bookie, on that lane."""

from __future__ import annotations

from dataclasses import replace

from bookie.wire import Columns, of_payloads
from ledgers.errors import LedgerFenced, NotEnoughBookies
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    IN_ENSEMBLE,
    Accept,
    AppendEffect,
    ChangeRecord,
    CloseLane,
    FindReplacements,
    Finish,
    Force,
    OpenLane,
)
from ledgers.protocol.positions import Position
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


def found_lost(pipeline: AppendPipeline) -> bool:
    """What the shell looks at, and what giving up then comes to."""
    is_without = pipeline.is_without_quorum
    ended = [effect.error for effect in pipeline.give_up() if isinstance(effect, Finish)]
    assert [type(error) for error in ended] == ([NotEnoughBookies] if is_without else [])
    return is_without


def test_a_writer_may_give_up_once_so_many_bookies_have_failed_that_none_is_left_to_confirm_an_entry() -> (
    None
):
    pipeline = started()
    assert not found_lost(pipeline)
    pipeline.lane_failed(1, "gone")
    assert not found_lost(pipeline), "two of three still confirm"
    pipeline.lane_failed(3, "gone")
    assert found_lost(pipeline)
    assert not pipeline.is_without_quorum, "it has ended, and waits for nobody"


def test_a_spare_that_fails_before_its_first_answer_is_replaced_at_once_whoever_was_there_before() -> None:
    """Only who came back after a failure, and fails again, is looked at later."""
    pipeline = started()
    pipeline.lane_failed(1, "restarted")
    (opened,) = [e for e in pipeline.replacements({0: ENSEMBLE[0]}, {}) if isinstance(e, OpenLane)]
    pipeline.lane_failed(opened.lane, "no space")
    pipeline.retry_replacements()
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    (opened,) = [e for e in pipeline.changed(change.record) if isinstance(e, OpenLane)]
    (wanted,) = [e for e in pipeline.lane_failed(opened.lane, "gone") if isinstance(e, FindReplacements)]
    assert wanted.failed == {0: "gone"}


def test_an_answer_that_tells_nothing_new_clears_no_failure_and_ends_no_trial() -> None:
    position = Position(SPARE, 1, 4, 6, failure="gone", on_trial=True)
    for acked, written in ((4, 6), (3, 3), (-1, 6)):
        assert not position.answered(acked=acked, written=written)
    assert (position.failure, position.on_trial) == ("gone", True)
    assert position.answered(acked=-1, written=7)
    assert (position.acked_through, position.written_through) == (4, 7)
    assert (position.failure, position.on_trial) == ("", False)


def test_a_close_asked_for_during_a_change_comes_behind_it_and_only_once() -> None:
    pipeline = started()
    pipeline.lane_failed(1, "gone")
    (change,) = [e for e in pipeline.replacements({0: SPARE}, {}) if isinstance(e, ChangeRecord)]
    assert pipeline.close() == [Force(2), Force(3)]
    assert pipeline.close() == []
    (closing,) = [e for e in pipeline.changed(change.record) if isinstance(e, ChangeRecord)]
    assert closing.record.is_closed
    assert pipeline.close() == []


def test_a_writer_that_is_to_close_looks_for_no_replacement() -> None:
    pipeline = started()
    pipeline.close()
    assert pipeline.lane_failed(1, "gone") == [CloseLane(1)]


def test_a_change_whose_answer_was_lost_is_known_by_its_last_fragment() -> None:
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


def test_who_gives_up_tells_what_failed_at_each_bookie_also_at_one_that_was_fine_in_the_last_search_or_is_back() -> (
    None
):
    """Nobody can mend what "is in the ensemble" says of a failed one; of one that is fine it is true."""
    pipeline = started()
    pipeline.lane_failed(1, "gone")
    pipeline.lane_failed(2, "no descriptor left")
    pipeline.replacements({0: ENSEMBLE[0]}, {"b2": IN_ENSEMBLE, "b3": IN_ENSEMBLE, "b4": "is read-only"})
    assert not pipeline.is_without_quorum, "b1 is on trial"
    pipeline.lane_failed(4, "no space left")
    (error,) = [effect.error for effect in pipeline.give_up() if isinstance(effect, Finish)]
    assert isinstance(error, NotEnoughBookies)
    assert error.reasons == {
        "b1": "no space left",
        "b2": "no descriptor left",
        "b3": IN_ENSEMBLE,
        "b4": "is read-only",
    }


def test_who_gives_up_tells_what_failed_at_a_bookie_that_is_taken_back_and_has_not_answered() -> None:
    record = LedgerRecord(7, Shape(3, 3, 3), (Fragment(0, ENSEMBLE),))
    pipeline = AppendPipeline(record)
    pipeline.start()
    pipeline.append(entry(0))
    pipeline.lane_failed(1, "gone")
    pipeline.replacements({0: ENSEMBLE[0]}, {"b2": IN_ENSEMBLE, "b3": IN_ENSEMBLE})
    pipeline.lane_failed(2, "hangs")
    (error,) = [effect.error for effect in pipeline.give_up() if isinstance(effect, Finish)]
    assert isinstance(error, NotEnoughBookies)
    assert error.reasons == {"b1": "gone", "b2": "hangs", "b3": IN_ENSEMBLE}


def changed() -> tuple[AppendPipeline, LedgerRecord]:
    """The third bookie was replaced before entry 1, which all have; and the record as it was before."""
    record = LedgerRecord(7, Shape(3, 3, 2), (Fragment(0, ENSEMBLE, number=1),))
    pipeline = AppendPipeline(record)
    pipeline.start()
    pipeline.append(entry(0))
    pipeline.acked(1, 0)
    pipeline.acked(2, 0)
    pipeline.lane_failed(3, "gone")
    (change,) = pipeline.replacements({2: SPARE}, {})
    assert isinstance(change, ChangeRecord)
    pipeline.changed(change.record)
    pipeline.append(entry(1))
    for lane in (1, 2, 4):
        pipeline.acked(lane, 1)
    assert pipeline.last_add_confirmed == 1
    return pipeline, record


def ends_fenced(effects: list[AppendEffect]) -> bool:
    end = effects[-1]
    return isinstance(end, Finish) and isinstance(end.error, LedgerFenced)


def test_a_writer_closes_nothing_by_a_record_that_went_back_to_an_older_ensemble() -> None:
    """W4: that names a bookie which has not got the entries, in the place of the one that has."""
    pipeline, older = changed()
    (close,) = pipeline.close()
    assert isinstance(close, ChangeRecord)
    assert ends_fenced(pipeline.conflicted(older))


def test_nor_does_it_change_the_ensemble_of_one_that_names_the_same_bookies_from_an_earlier_entry_on() -> (
    None
):
    pipeline, older = changed()
    same = replace(older, fragments=(Fragment(0, pipeline.record.fragments[-1].ensemble, number=1),))
    pipeline.lane_failed(1, "gone")
    (change,) = pipeline.replacements({0: ENSEMBLE[2]}, {})
    assert isinstance(change, ChangeRecord)
    assert ends_fenced(pipeline.conflicted(same))
