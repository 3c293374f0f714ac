"""Whole clusters under random faults, on seeds that nobody has run before.

`SIM_SECONDS=600` runs for longer; a failing seed is repeated by `make sim SEED=n`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.simulation.cores.plans.draw import SHAPES
from tests.simulation.cores.plans.plan import Append, Plan, Tail

from .cluster import Run, run_plan, run_seed
from .probes import Probe

SECONDS = float(os.environ.get("SIM_SECONDS", "10"))
SECONDS_BEYOND_MAX = 120.0
"""What starting, finishing and shrinking a failure may take on top."""

SEEDS = 250


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run_seed(seed) for seed in range(SEEDS)]


@pytest.mark.long
@pytest.mark.timeout(SECONDS + SECONDS_BEYOND_MAX)
def test_no_promise_is_broken_under_random_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """I1 to I12 and the end of every run, on fresh seeds and all cores."""
    done = _campaign("--seconds", str(SECONDS))
    with capsys.disabled():
        print(f"\nrandom schedules: {done.stdout.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"^seeds=\d+ violations=0 seeds_per_second=\d+ first_seed=\d+\n\Z", done.stdout, re.MULTILINE
    )


def test_the_random_schedules_do_what_they_are_meant_to_test(runs: list[Run]) -> None:
    """A harness that tests nothing finds nothing; the rarest paths are asked for by long campaigns only."""
    reached = {probe for run in runs for probe in run.probes}
    assert len(reached) > 0.8 * len(Probe), sorted(probe.value for probe in set(Probe) - reached)
    assert {run.plan.shape for run in runs} == set(SHAPES)
    assert sum(run.confirmed > 0 for run in runs) > SEEDS // 2
    kept = [run for run in runs if run.last_entry is not None and run.last_entry >= run.confirmed]
    assert len(kept) > SEEDS // 10, "entries that were never confirmed are recovered"
    assert sum(run.events for run in runs) / SEEDS < 750, "more seeds beat longer seeds"


def test_looking_costs_nothing_but_time(runs: list[Run]) -> None:
    """A run without its trace is the same run."""
    for run in runs[:30]:
        assert run_plan(run.plan, tracing=False).events == run.events


def test_what_is_taken_out_of_a_plan_leaves_the_rest_as_it_was() -> None:
    """Chance is keyed: without the tail reader, the writer's story is the same, line by line."""
    plan = Plan(7, (3, 3, 2), 4, operations=(Append(1.0, (2, 3)), Tail(2.0), Append(9.0, (1,))))
    alone = replace(plan, operations=tuple(o for o in plan.operations if not isinstance(o, Tail)))
    assert _lines_of("writer", run_plan(plan)) == _lines_of("writer", run_plan(alone))


def _lines_of(name: str, run: Run) -> list[str]:
    return [line for line in run.trace if f" {name}" in line]


def _campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", "cores", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
