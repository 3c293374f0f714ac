"""Whole clusters of the real classes under random faults."""

from __future__ import annotations

import pytest

from tests.simulation.engine.contract import SEEDS, ScheduleContract
from tests.simulation.engine.runs import Run

from .found import FOUND
from .layer import LAYER

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


class TestCluster(ScheduleContract):
    """W1 to W7, C1, R1 to R6, B1 to B4, M1, M2, J1 to J6, and nothing left running."""

    layer = LAYER
    found = FOUND
    seeds = 40
    traced = True

    @pytest.mark.skipif(SEEDS is not None, reason="a few seeds do not reach everything")
    def test_the_random_schedules_take_the_rare_paths(self, runs: list[Run]) -> None:
        text = "\n".join(line for run in runs for line in run.trace)
        assert [what for what, mark in REACHED.items() if mark not in text] == []
