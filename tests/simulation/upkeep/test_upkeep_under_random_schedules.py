"""A bookie that is collected, compacted, scrubbed, repaired and salvaged: B2, B3, R1, R6, by index and by log alone."""

from __future__ import annotations

import pytest

from tests.simulation.engine.contract import LayerContract

from . import planted
from .draw import draw_race
from .found import FOUND
from .layer import LAYER

RACES_MAX = 60


class TestUpkeep(LayerContract):
    layer = LAYER
    found = FOUND
    seeds = 100
    shrinks = {planted.does_not_move_states: 10}  # noqa: RUF012 — the contract says that it is the class's


def test_a_read_that_does_not_look_up_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans that are about nothing else: others seldom read in that very moment."""
    planted.does_not_look_up_again(monkeypatch)
    assert any(LAYER.rule_broken_by(draw_race(seed)) for seed in range(RACES_MAX))
