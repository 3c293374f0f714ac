"""Writers that race, leaders, readers and truncations of a log, and a set of logs, under random faults.

`SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.contract import FoundPlans, LayerContract
from tests.simulation.engine.runs import Run

from .found import FOUND
from .layer import LAYER

FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("SIM_SEEDS", "60"))


class TestLogs(LayerContract):
    layer = LAYER
    same_seeds = 5


class TestFoundPlans(FoundPlans):
    layer = LAYER
    found = FOUND


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [LAYER.run(seed) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def test_L1_to_L7_and_L9_to_L11_hold_whoever_writes_leads_reads_and_gives_up(runs: list[Run]) -> None:
    """A failing seed is named with its plan and trace."""
    assert [run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))
