"""The real shells of client and bookie under random faults. `VIRTUAL_SEED=7` repeats one seed.

The planted bugs are found within the seeds that stand beside each; `VIRTUAL_SEEDS=n` runs more than usual.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .planted import FOUND_LATE, PLANTED, Plant
from .runs import Failed, Run, run_seed

SEED = os.environ.get("VIRTUAL_SEED")
FIRST_SEED = 0 if SEED is None else int(SEED)
SEEDS = int(os.environ.get("VIRTUAL_SEEDS", "100")) if SEED is None else 1

SAME_SEEDS = 15

REACHED = {
    "a writer closed its ledger": "writer close: done",
    "an ensemble was changed, or a record at all": "replace of writer: int",
    "an append was cancelled": "writer append: cancelled",
    "a close was cancelled and done again": " close again: done",
    "a writer was fenced": "LedgerFenced",
    "a client was closed in the middle": "closes its client",
    "a recovery was cancelled": "recover: cancelled",
    "a recovery failed": "recover: LedgerRecoveryFailed",
    "a tail was begun again": "tail: NotEnoughAnswers",
    "an answer of the store was lost": "MetadataUnavailable",
    "somebody was faster": "VersionConflict",
    "a bookie lost what it had not synced": "0 of 1 survive",
    "a ledger was deleted": "deleter delete: done",
    "entries came out of order": "advanced append_as: done",
}


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run_seed(seed) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def test_no_promise_is_broken_by_the_shells(runs: list[Run]) -> None:
    """W2, W3, R5, M1, P1 to P7, every append answered, and nothing left running; a failure names its seed."""
    assert [run.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))


@pytest.mark.skipif(SEEDS < 100, reason="a few seeds do not reach everything")
def test_the_runs_reach_what_they_are_meant_to_test(runs: list[Run]) -> None:
    """A harness that tests nothing finds nothing."""
    text = "\n".join(line for run in runs for line in run.trace)
    assert [what for what, mark in REACHED.items() if mark not in text] == []
    assert sum(run.confirmed > 0 for run in runs) > SEEDS // 2


def test_the_same_seed_gives_the_same_run_whatever_the_hashing_of_the_process() -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + SAME_SEEDS)
    hashes = [run_seed(seed).trace_hash for seed in seeds]
    assert [run_seed(seed).trace_hash for seed in seeds] == hashes
    program = (
        "from tests.simulation.shells.runs import run_seed\n"
        f"for seed in range({seeds.start}, {seeds.stop}): print(run_seed(seed).trace_hash)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == hashes


@pytest.mark.parametrize(
    "plant",
    [pytest.param(plant, marks=pytest.mark.long if plant in FOUND_LATE else ()) for plant in PLANTED],
    ids=[plant.__name__ for plant in PLANTED],
)
def test_a_bug_planted_in_a_shell_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(_fails(seed) for seed in range(PLANTED[plant])), f"no seed below {PLANTED[plant]} found it"


def _fails(seed: int) -> bool:
    try:
        run_seed(seed)
    except Failed:
        return True
    return False
