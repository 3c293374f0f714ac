"""A ledger that was created while bookies were absent (rule W9): what its writer does, and what its record says."""

from __future__ import annotations

import pytest

from bookie.wire import Columns, of_payloads
from ledgers.errors import NotEnoughBookies
from ledgers.protocol.append_pipeline import AppendPipeline
from ledgers.protocol.ledger_effects import (
    AppendEffect,
    ChangeRecord,
    Confirm,
    FindReplacements,
    Finish,
    OpenLane,
    RetryLater,
    Send,
)
from metadata.records.ledger_record import BookieRef, Fragment, Lacking, LedgerRecord, Shape

BK1, BK2, BK3, BK4 = ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(1, 5))


THREE = Shape(3, 3, 2)


def record(shape: Shape = THREE, absent: tuple[int, ...] = (2,)) -> LedgerRecord:
    lacking = tuple(Lacking.everything(n) for n in absent)
    return LedgerRecord(7, shape, (Fragment(0, ENSEMBLE[: shape.ensemble_size], lacking=lacking),))


def entries(first: int, count: int = 1) -> Columns:
    return of_payloads(first, [b"x"] * count, b"d" * count)


def lanes(effects: list[AppendEffect]) -> dict[BookieRef, int]:
    return {effect.bookie: effect.lane for effect in effects if isinstance(effect, OpenLane)}


def confirmed(effects: list[AppendEffect]) -> list[int]:
    return [effect.last_entry for effect in effects if isinstance(effect, Confirm)]


def changed(effects: list[AppendEffect]) -> LedgerRecord:
    (change,) = [effect for effect in effects if isinstance(effect, ChangeRecord)]
    return change.record


def written(pipeline: AppendPipeline, through: int) -> dict[BookieRef, int]:
    """A writer that has started, and whose living bookies have acknowledged these entries; its lanes."""
    opened = lanes(pipeline.start())
    pipeline.append(entries(0, through + 1))
    for lane in opened.values():
        pipeline.acked(lane, through)
    assert pipeline.last_add_confirmed == through
    return opened


def test_an_absent_bookie_begins_without_a_lane_and_is_asked_again_after_a_pause() -> None:
    pipeline = AppendPipeline(record())
    effects = pipeline.start()
    assert lanes(effects).keys() == {BK1, BK2}
    assert effects[-1] == RetryLater()
    (asked,) = pipeline.retry_replacements()
    assert isinstance(asked, FindReplacements) and asked.failed.keys() == {2}


def test_entries_are_confirmed_by_the_living_and_the_close_says_what_the_absent_one_lacks() -> None:
    pipeline = AppendPipeline(record())
    written(pipeline, 9)
    closed = changed(pipeline.close())
    assert (closed.last_entry, closed.fragments[0].lacking) == (9, (Lacking(2, 0, 9),))


def test_an_empty_ledger_lacks_nothing_once_it_is_closed() -> None:
    pipeline = AppendPipeline(record())
    pipeline.start()
    closed = changed(pipeline.close())
    assert (closed.last_entry, closed.fragments[0].lacking) == (-1, ())


def test_one_that_is_back_takes_its_place_without_a_change_of_metadata_and_lacks_only_what_came_before() -> (
    None
):
    pipeline = AppendPipeline(record())
    written(pipeline, 4)
    pipeline.retry_replacements()
    (back,) = lanes(pipeline.replacements({2: BK3}, {})).values()
    sent = [effect for effect in pipeline.append(entries(5)) if isinstance(effect, Send)]
    assert back in [effect.lane for effect in sent]
    for lane in (1, 2, back):
        pipeline.acked(lane, 5)
    closed = changed(pipeline.close())
    assert closed.fragments[0].lacking == (Lacking(2, 0, 4),)


def test_where_another_takes_the_place_the_earlier_fragment_says_what_it_lacks() -> None:
    pipeline = AppendPipeline(record())
    written(pipeline, 4)
    pipeline.retry_replacements()
    change = changed(pipeline.replacements({2: BK4}, {}))
    first, second = change.fragments
    assert first.lacking == (Lacking(2, 0, 4),)
    assert (second.first_entry, second.ensemble, second.lacking) == (5, (BK1, BK2, BK4), ())


def test_one_that_is_replaced_before_the_first_entry_lacks_nothing() -> None:
    pipeline = AppendPipeline(record())
    pipeline.start()
    pipeline.retry_replacements()
    change = changed(pipeline.replacements({2: BK4}, {}))
    assert change.fragments == (Fragment(0, (BK1, BK2, BK4)),)


def test_it_counts_for_no_ack_quorum() -> None:
    """With one more failed the writer has no quorum, as if the absent one had failed a moment after the creation."""
    pipeline = AppendPipeline(record())
    opened = lanes(pipeline.start())
    pipeline.append(entries(0))
    assert confirmed(pipeline.acked(opened[BK1], 0)) == []
    pipeline.lane_failed(opened[BK2], "gone")
    assert pipeline.is_without_quorum
    (end,) = [effect for effect in pipeline.give_up() if isinstance(effect, Finish)]
    assert isinstance(end.error, NotEnoughBookies)
    assert end.error.reasons["b3"] == "was absent when the ledger was created"


@pytest.mark.parametrize("absent", [(0,), (0, 2)])
def test_a_striped_ledger_is_confirmed_where_every_write_set_has_its_quorum(
    absent: tuple[int, ...],
) -> None:
    pipeline = AppendPipeline(record(Shape(4, 2, 1), absent))
    opened = lanes(pipeline.start())
    assert opened.keys() == {bookie for n, bookie in enumerate(ENSEMBLE) if n not in absent}
    pipeline.append(entries(0, 8))
    for lane in opened.values():
        pipeline.acked(lane, 7)
    assert pipeline.last_add_confirmed == 7
    closed = changed(pipeline.close())
    assert {lack.position for lack in closed.fragments[0].lacking} == set(absent)
    assert not any(lack.is_everything for lack in closed.fragments[0].lacking)


def test_a_recovery_that_knows_nothing_better_leaves_what_the_record_says_within_its_end() -> None:
    closed = record().in_recovery().closed(9, 10)
    assert closed.fragments[0].lacking == (Lacking(2, 0, 9),)


def test_a_recovery_writes_back_to_all_positions() -> None:
    """The absent one may be back, and is asked like any other."""
    pipeline = AppendPipeline(record().in_recovery(), recovery=True)
    assert lanes(pipeline.start()).keys() == {BK1, BK2, BK3}
