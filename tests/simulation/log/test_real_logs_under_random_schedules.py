"""Clusters of bookies with the real codec, log, index and reading. `SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from tests.simulation.cores.plans.draw import draw
from tests.simulation.cores.plans.plan import Figures, Plan
from tests.simulation.engine.contract import LayerContract

from .layer import LAYER
from .probes import WetProbe
from .run import WetRun, run_wet_plan, run_wet_seed

FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("SIM_SEEDS", "200"))

EXHAUSTED_PLANS = 10
CONFIRMED_MIN = 4
"""Drawn runs that confirm fewer entries are too short to be crashed at every operation."""


class TestLog(LayerContract):
    layer = LAYER


@pytest.fixture(scope="module")
def runs() -> list[WetRun]:
    return [run_wet_seed(seed, tracing=False) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def test_no_promise_is_broken_by_real_logs_and_real_messages(runs: list[WetRun]) -> None:
    """B1, B2, R1, R6 and I1 to I12, against the durable bytes of the disks; a failing seed is named with its trace."""
    assert [run.run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))


@pytest.mark.skipif(SEEDS < 200, reason="a few seeds do not reach everything")
def test_the_random_schedules_take_the_paths_of_log_and_index(runs: list[WetRun]) -> None:
    """A harness that tests nothing finds nothing."""
    reached = {probe for run in runs for probe in run.probes}
    assert set(WetProbe) - reached == set()
    assert sum(run.run.confirmed > 0 for run in runs) > SEEDS // 2
    assert sum(run.messages.refused for run in runs) > SEEDS // 10


# --- the power goes before every operation -------------------------------------------------------


def faultless(seed: int) -> Plan:
    """What clients do by this seed, on machines and networks without fault."""
    drawn = draw(seed)
    return replace(drawn, figures=Figures(sync_seconds=drawn.figures.sync_seconds), rules=(), faults=())


def calm_runs() -> Iterator[WetRun]:
    """Drawn runs without fault in which enough is confirmed."""
    for seed in range(FIRST_SEED, FIRST_SEED + 1000):
        run = run_wet_plan(faultless(seed), tracing=False, power_off={})
        if run.run.confirmed >= CONFIRMED_MIN:
            yield run


@pytest.mark.long
def test_the_power_may_go_before_every_single_operation_of_a_disk() -> None:
    """B2, F14: writes, truncations, syncs, new names; in groups, rolls and seals."""
    crashes = 0
    for calm in islice(calm_runs(), EXHAUSTED_PLANS):
        for operation in range(calm.operations["b0"] + 1):
            run_wet_plan(calm.run.plan, tracing=False, power_off={"b0": operation})
            crashes += 1
    assert crashes > 10 * EXHAUSTED_PLANS
