"""A bookie that is collected, compacted, scrubbed, repaired and salvaged under random faults.

`SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.engine.world import Violation

from . import plan as plan_module
from .draw import draw, draw_race
from .found import FOUND, Found
from .plan import Append, Close, Crash, LoseIndex, Plan
from .planted import PLANTED, Plant, does_not_look_up_again
from .planted import does_not_move_states as forgets_fences
from .probes import UpkeepProbe
from .run import Failed, UpkeepRun, run_upkeep_plan, run_upkeep_seed
from .shrink import rule_broken_by, shrink

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

SAME_SEEDS = 8
SHRUNK_STEPS_MAX = 10
RACES_MAX = 60


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


def test_the_same_seed_gives_the_same_run_whatever_the_hashing_of_the_process(runs: list[UpkeepRun]) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + min(SEEDS, SAME_SEEDS))
    program = (
        "from tests.simulation.upkeep.run import run_upkeep_seed\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(run_upkeep_seed(seed).trace_hash)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [run.trace_hash for run in runs[: len(seeds)]]


def test_a_plan_prints_as_the_python_that_makes_it_again() -> None:
    names = {name: getattr(plan_module, name) for name in dir(plan_module)}
    for seed in range(50):
        assert eval(repr(draw(seed)), names) == draw(seed)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.what.split(":")[0])
def test_a_plan_that_found_a_bug_holds(found: Found) -> None:
    run_upkeep_plan(found.plan)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.what.split(":")[0])
def test_and_would_find_it_again(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    found.bug(monkeypatch)
    assert rule_broken_by(found.plan) == found.rule


def test_a_failing_plan_is_made_small() -> None:
    """Whatever else happens, only the crash and what it loses matter to this failure."""

    def fails(plan: Plan) -> str | None:
        kinds = [type(step) for step in plan.steps]
        return "made up" if Crash in kinds and LoseIndex in kinds and Append in kinds else None

    plan = next(plan for plan in map(draw, range(10_000)) if fails(plan))
    small = shrink(plan, fails)
    assert sorted(type(step).__name__ for step in small.steps) == ["Append", "Crash", "LoseIndex"]
    with pytest.raises(ValueError, match="does not fail"):
        shrink(Plan(1, steps=(Close(0),)), fails)


def test_a_planted_bug_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        forgets_fences(patch)
        seed = _first_seed_that_fails(*PLANTED[forgets_fences])
        assert seed is not None
        small = shrink(draw(seed), runs_max=150)
        assert len(small.steps) <= SHRUNK_STEPS_MAX
    run_upkeep_plan(small)  # without the bug it holds


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_bug_planted_in_upkeep_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _first_seed_that_fails(*PLANTED[plant]) is not None


def test_a_read_that_does_not_look_up_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans that are about nothing else: others seldom read in that very moment."""
    does_not_look_up_again(monkeypatch)
    assert any(rule_broken_by(draw_race(seed)) for seed in range(RACES_MAX))


def _first_seed_that_fails(likely: int, seeds_max: int) -> int | None:
    return next((seed for seed in (likely, *range(seeds_max)) if _breaks_a_promise(seed)), None)


def _breaks_a_promise(seed: int) -> bool:
    """A run that only falls over has found nothing."""
    try:
        run_upkeep_seed(seed, tracing=False)
    except Failed as failed:
        return isinstance(failed.__cause__, Violation)
    return False
