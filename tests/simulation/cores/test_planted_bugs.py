"""The simulator finds bugs: each rule broken on purpose is found within its budget of seeds, as is each pair."""

from __future__ import annotations

import secrets

import pytest

from .cluster import Failed, run_seed
from tests.simulation.cores.planted.table import CANARY, PAIRS, PLANTS, SAFE_ALONE, Both, Break, Plant, failing_seeds

SAFE_SEEDS = 100


@pytest.mark.parametrize("plant", [*PLANTS, *PAIRS], ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant: Plant | Both, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.plant(monkeypatch)
    assert next(failing_seeds(plant), None) is not None, f"no seed below {plant.seeds_max} found it"


def test_the_canary_is_found_by_any_twenty_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    CANARY.plant(monkeypatch)
    first = secrets.randbelow(2**40)
    assert any(_fails(seed) for seed in range(first, first + CANARY.seeds_max)), f"not from seed {first} on"


@pytest.mark.parametrize("plant", SAFE_ALONE, ids=lambda plant: plant.__name__)
def test_a_rule_that_another_covers_is_not_missed(plant: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """F22. Were it found, it would belong to the bugs above."""
    plant(monkeypatch)
    assert not any(_fails(seed) for seed in range(SAFE_SEEDS))


def _fails(seed: int) -> bool:
    try:
        run_seed(seed, tracing=False)
    except Failed:
        return True
    return False
