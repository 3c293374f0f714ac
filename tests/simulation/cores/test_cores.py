"""The layer of the machines: what every layer must do, and rules that cover each other."""

from __future__ import annotations

import secrets

import pytest

from tests.simulation.engine.contract import FoundPlans, LayerContract
from tests.simulation.engine.planted import Plant

from .found import FOUND
from .layer import LAYER
from .planted.table import CANARY, SAFE_ALONE

SAFE_SEEDS = 100


class TestFound(FoundPlans):
    layer = LAYER
    found = FOUND


class TestCores(LayerContract):
    layer = LAYER
    same_seeds = 60


def test_the_canary_is_found_by_any_twenty_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    CANARY(monkeypatch)
    first = secrets.randbelow(2**40)
    assert any(map(LAYER.finds, range(first, first + CANARY.within))), f"not from seed {first} on"


@pytest.mark.parametrize("plant", SAFE_ALONE, ids=lambda plant: plant.name)
def test_a_rule_that_another_covers_is_not_missed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """F22. Were it found, it would belong to the bugs above."""
    plant(monkeypatch)
    assert not any(map(LAYER.finds, range(SAFE_SEEDS)))
