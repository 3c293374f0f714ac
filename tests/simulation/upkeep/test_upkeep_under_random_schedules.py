"""A bookie that is collected, compacted, scrubbed, repaired and salvaged: B2, B3, R1, R6, by index and by log alone."""

from __future__ import annotations

import pytest

from tests.simulation.engine.contract import LayerContract

from . import planted
from .draw import draw_race
from .found import FOUND
from .layer import LAYER
from .probes import UpkeepProbe

RACES_MAX = 60


REACHED_BY_FEW = {
    UpkeepProbe.CRASH_MOVING,
    UpkeepProbe.CRASH_DELETING,
    UpkeepProbe.CRASH_BEFORE_FORGET,
    UpkeepProbe.CRASH_LIMBO,
    UpkeepProbe.CRASH_START,
    UpkeepProbe.COPY_FOUND,
    UpkeepProbe.APPEND_WHILE_COMPACTING,
    UpkeepProbe.STATE_NEEDED,
    UpkeepProbe.REFUSED_TO_START,
    UpkeepProbe.LIMBO_LEFT,
    UpkeepProbe.ENTRY_FETCHED,
    UpkeepProbe.FORGOTTEN,
    UpkeepProbe.LATE_WRITER,
    UpkeepProbe.MISPLACED_DROPPED,
    UpkeepProbe.WRITTEN_BACK,
    UpkeepProbe.ADOPTED,
}
"""What any hundred seeds reach; the rest takes a campaign."""


class TestUpkeep(LayerContract):
    layer = LAYER
    found = FOUND
    seeds = 100
    rarest = frozenset(UpkeepProbe) - REACHED_BY_FEW
    reached = 0.0
    shrinks = {planted.does_not_move_states: 10}  # noqa: RUF012 — the contract says that it is the class's


def test_a_read_that_does_not_look_up_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans that are about nothing else: others seldom read in that very moment."""
    planted.does_not_look_up_again(monkeypatch)
    assert any(LAYER.rule_broken_by(draw_race(seed)) for seed in range(RACES_MAX))
