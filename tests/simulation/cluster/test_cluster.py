"""Whole clusters of the real classes under random faults. `CLUSTER_SEED=7` repeats one; `CLUSTER_SEEDS=n` runs more."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.contract import FoundPlans, LayerContract
from tests.simulation.engine.runs import Run

from .found import FOUND
from .layer import LAYER

SEED = os.environ.get("CLUSTER_SEED")
FIRST_SEED = 0 if SEED is None else int(SEED)
SEEDS = int(os.environ.get("CLUSTER_SEEDS", "40")) if SEED is None else 1

REACHED = {
    "a bookie was killed": " dies",
    "a bookie lost its power": "loses its power",
    "a bookie was stopped in order": "is told to stop",
    "a log could not be synced": "the disk is broken",
    "a disk was full": "DiskFull(",
    "a bookie refused an older copy of its disk": "is an older copy of this bookie's directory",
    "a process stood still": "stands still",
    "disks were exchanged": "DisksExchanged(",
    "a ledger was repaired": "REPAIR: OK",
    "a writer in ordinary code closed its ledger": "close: done",
    "a call in ordinary code was interrupted": ": interrupted",
    "a reader in ordinary code came to the end": "tail: done",
    "a journal was taken over": "epoch 2 goes on behind",
    "a writer of a journal lost it": "failed: ",
    "an operation was cancelled": ": cancelled",
    "a client was closed in the middle": "closes its client",
}


class TestCluster(LayerContract):
    layer = LAYER
    same_seeds = 8


class TestFound(FoundPlans):
    layer = LAYER
    found = FOUND


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [LAYER.run(seed) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]


def test_no_promise_is_broken_by_whole_clusters(runs: list[Run]) -> None:
    """W1 to W7, C1, R1 to R6, B1 to B4, M1, M2, J1 to J6, and nothing left running; a failure names its seed."""
    assert [run.plan.seed for run in runs] == list(range(FIRST_SEED, FIRST_SEED + SEEDS))


@pytest.mark.skipif(SEEDS < 40, reason="a few seeds do not reach everything")
def test_the_runs_reach_what_they_are_meant_to_test(runs: list[Run]) -> None:
    """A harness that tests nothing finds nothing."""
    text = "\n".join(line for run in runs for line in run.trace)
    assert [what for what, mark in REACHED.items() if mark not in text] == []
