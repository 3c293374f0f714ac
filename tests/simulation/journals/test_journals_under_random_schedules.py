"""Writers, acceptors and readers of a journal under random faults.

`SIM_FIRST_SEED=7 SIM_SEEDS=1` repeats one seed; `SIM_PAIRS=1` meddles with every pair of calls instead of every few.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice

import pytest

from tests.simulation.engine.world import Violation

from . import plan as plan_module
from .draw import draw
from .found import FOUND, Found
from .ledgers import Ledger, Pending
from .pairs import failing, messages, plans
from .plan import DAEMONS, ONE, WITHIN, Cut, Plan, Tamper, Writer
from .planted import CANARY, PLANTS, Plant, failing_seeds
from .probes import JournalProbe
from .run import Failed, JournalRun, run_journal_plan, run_journal_seed
from .shrink import rule_broken_by, shrink

FIRST_SEED = int(os.environ.get("SIM_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("SIM_SEEDS", "400"))
PAIRS_STEP = 1 if os.environ.get("SIM_PAIRS") else 13
"""Every so many pairs; no divisor of the ways to meddle with two calls, so that all of them come."""

SAME_SEEDS = 8
SHRUNK_PARTS_MAX = 6
LATER_PROBES = {JournalProbe.SWAP_OVERTAKEN}
"""What only a campaign is sure to reach."""


@pytest.fixture(scope="module")
def runs() -> list[JournalRun]:
    return [
        run_journal_seed(seed, tracing=seed < FIRST_SEED + SAME_SEEDS)
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)
    ]


def test_J1_to_J6_hold_under_random_schedules(runs: list[JournalRun]) -> None:
    """A failing seed is named with its plan and trace."""
    assert [run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))


@pytest.mark.skipif(SEEDS < 400, reason="a few seeds do not reach everything")
def test_the_random_schedules_take_the_rare_paths(runs: list[JournalRun]) -> None:
    """A harness that tests nothing finds nothing."""
    reached = {probe for run in runs for probe in run.probes}
    assert set(JournalProbe) - LATER_PROBES - reached == set()
    assert {run.plan.form for run in runs} == {ONE, WITHIN, DAEMONS}


def test_the_same_seed_gives_the_same_run_whatever_the_hashing_of_the_process(runs: list[JournalRun]) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + min(SEEDS, SAME_SEEDS))
    program = (
        "from tests.simulation.journals.run import run_journal_seed\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(run_journal_seed(seed).trace_hash)"
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


def test_a_failing_plan_is_made_small() -> None:
    """Whatever else happens, only one cut and one writer matter to this failure."""

    def fails(plan: Plan) -> str | None:
        has_cut = any(isinstance(fault, Cut) for fault in plan.faults)
        return "made up" if has_cut and any(writer.segments for writer in plan.writers) else None

    plan = next(plan for plan in map(draw, range(10_000)) if fails(plan))
    small = shrink(plan, fails)
    assert [type(fault) for fault in small.faults] == [Cut]
    assert len([writer for writer in small.writers if writer.segments]) == 1
    with pytest.raises(ValueError, match="does not fail"):
        shrink(Plan(1), fails)


def test_a_planted_bug_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        CANARY.plant(patch)
        small = shrink(draw(next(failing_seeds(CANARY))), runs_max=200)
        active = [writer for writer in small.writers if writer.attempts]
        assert len(active) + len(small.faults) + len(small.readers) <= SHRUNK_PARTS_MAX
    run_journal_plan(small)  # without the bug it holds


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.what.split(":")[0])
def test_a_plan_that_found_a_bug_holds(found: Found) -> None:
    run_journal_plan(found.plan)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.what.split(":")[0])
def test_and_would_find_it_again(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    found.bug(monkeypatch)
    assert rule_broken_by(found.plan) == found.rule


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.plant(monkeypatch)
    assert next(failing_seeds(plant), None) is not None


# --- pairs of faults ----------------------------------------------------------------------------


def test_no_pair_of_calls_that_are_lost_late_or_doubled_breaks_a_promise() -> None:
    some = islice(plans(messages(answers=False)), 0, None, PAIRS_STEP)
    assert [f"{failed.__cause__!r} {failed.plan!r}" for failed in failing(some)] == []


def test_pairs_of_calls_find_a_bug_that_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    some = islice(plans(messages(answers=False)), 0, None, PAIRS_STEP)
    CANARY.plant(monkeypatch)
    assert next(failing(some), None) is not None


# --- the harness itself -------------------------------------------------------------------------


def test_a_tampered_message_is_lost() -> None:
    plan = Plan(1, writers=(Writer(0.0),), faults=(Tamper("StartLogSegment", "w0", "a0"),))
    lost = [line for line in run_journal_plan(plan).trace if "lost" in line]
    assert len(lost) == 1
    assert "StartLogSegment from w0 to a0" in lost[0]


def test_what_arrives_behind_the_end_of_a_ledger_is_not_in_it() -> None:
    ledger = Ledger(1)
    pending = Pending(batch=None, confirm=lambda told: None)  # type: ignore[arg-type]  # nobody looks into it
    ledger.end(0)
    ledger.pending.append(pending)
    assert ledger.land(pending) is False


def test_a_run_that_never_ends_is_a_failure() -> None:
    """Where no writer comes through, that is a broken promise and not the end of the run."""
    with pytest.MonkeyPatch.context() as patch:
        next(plant for plant in PLANTS if plant.name == "numbers_nothing").plant(patch)
        with pytest.raises(Failed) as failed:
            run_journal_plan(Plan(1))
    assert isinstance(failed.value.__cause__, Violation)
    assert failed.value.rule == "liveness"
