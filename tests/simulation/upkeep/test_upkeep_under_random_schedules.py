"""A bookie that is collected, compacted, scrubbed, repaired and salvaged under random faults.

`SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.contract import FoundPlans, LayerContract
from tests.simulation.engine.shrink import shrunk

from .draw import draw, draw_race
from .found import FOUND
from .layer import LAYER
from .plan import Append, Close, Crash, LoseIndex, Plan
from .planted import does_not_look_up_again
from .planted import does_not_move_states as forgets_fences
from .probes import UpkeepProbe
from .run import UpkeepRun, run_upkeep_plan, run_upkeep_seed

FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("SIM_SEEDS", "100"))

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

SHRUNK_STEPS_MAX = 10
RACES_MAX = 60


class TestFound(FoundPlans):
    layer = LAYER
    found = FOUND


class TestUpkeep(LayerContract):
    layer = LAYER
    same_seeds = 8


@pytest.fixture(scope="module")
def runs() -> list[UpkeepRun]:
    return [run_upkeep_seed(seed) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def test_no_promise_is_broken_by_upkeep(runs: list[UpkeepRun]) -> None:
    """B2, B3, R1, R6, from the index and from the log alone; a failing seed is named with its plan and trace."""
    assert [run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))


@pytest.mark.skipif(SEEDS < 100, reason="a few seeds do not reach everything")
def test_the_random_schedules_take_the_paths_of_upkeep(runs: list[UpkeepRun]) -> None:
    """A harness that tests nothing finds nothing."""
    reached = {probe for run in runs for probe in run.probes}
    assert REACHED_BY_FEW - reached == set()


def test_a_failing_plan_is_made_small() -> None:
    """Whatever else happens, only the crash and what it loses matter to this failure."""

    def fails(plan: Plan) -> str | None:
        kinds = [type(step) for step in plan.steps]
        return "made up" if Crash in kinds and LoseIndex in kinds and Append in kinds else None

    plan = next(plan for plan in map(draw, range(10_000)) if fails(plan))
    small = shrunk(plan, fails, LAYER.simpler)
    assert sorted(type(step).__name__ for step in small.steps) == ["Append", "Crash", "LoseIndex"]
    with pytest.raises(ValueError, match="does not fail"):
        shrunk(Plan(1, steps=(Close(0),)), fails, LAYER.simpler)


def test_a_planted_bug_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        forgets_fences(patch)
        small = LAYER.shrink(draw(next(LAYER.failing_seeds(forgets_fences))), runs_max=150)
        assert len(small.steps) <= SHRUNK_STEPS_MAX
    run_upkeep_plan(small)  # without the bug it holds


def test_a_read_that_does_not_look_up_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans that are about nothing else: others seldom read in that very moment."""
    does_not_look_up_again(monkeypatch)
    assert any(LAYER.rule_broken_by(draw_race(seed)) for seed in range(RACES_MAX))
