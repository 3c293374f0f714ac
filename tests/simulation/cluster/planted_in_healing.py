"""Bugs planted in what makes missing copies: writers and recoveries that tell what lacks, auditor, workers, stock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bookie.storage.bookie import Bookie
from bookie.storage.core import state_record
from bookie.upkeep.healing import rebalancer as rebalancer_module
from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.cluster_view import ClusterView
from bookie.upkeep.healing.replication_tasks import takers
from bookie.upkeep.healing.replication_worker import ReplicationWorker
from bookie.upkeep.mending import healer as healer_module
from bookie.upkeep.mending import limbo
from bookie.upkeep.mending.gap_filling import Mender
from bookie.upkeep.mending.replication_task import ReplicationTask
from ledgers.protocol import ledger_recovery
from ledgers.protocol.shortfall import Shortfall
from metadata.records.ledger_record import LedgerRecord, LedgerState
from tests.simulation.engine.planted import Real, around, bug, instead_of

Patch = pytest.MonkeyPatch


@instead_of(Mender, "fill", within=50, known=1)
async def takes_a_place_with_nothing_in_it(self: Mender, *arguments: Any, **others: Any) -> None:
    """W3: the metadata names a bookie that has none of the entries."""


@bug(within=400, known=1)
def takes_what_another_lacks_for_all_that_it_holds(patch: Patch) -> None:
    """W3: as the worker did once."""
    parts = healer_module._parts

    def broken(part: LedgerRecord, task: ReplicationTask, *, only_lacking: bool) -> Any:
        del only_lacking
        return parts(part, task, only_lacking=True)

    def mine(self: ReplicationWorker, task: ReplicationTask, view: ClusterView, *, overdue: bool) -> bool:
        if task.bookie == self._me:
            return True
        return any(one.bookie == self._me for one in takers(task, view, second_best=overdue))

    patch.setattr(healer_module, "_parts", broken)
    patch.setattr(ReplicationWorker, "_is_mine", mine)


@around(limbo, "_in_limbo")
def leaves_closed_ledgers_unfenced(in_limbo: Real, bookie: Bookie, record: LedgerRecord) -> Any:
    """R1: a bookie that may have lost a fence takes more from the writer of a ledger that is closed; as it did once."""
    fence = bookie.states.hold(record.ledger_id).fence
    said = in_limbo(bookie, record)
    if not record.is_closed:
        return said
    state = bookie.states.hold(record.ledger_id)
    state.fence = fence
    return state_record(state)


@around(rebalancer_module, "wanted")
def moves_what_is_being_recovered(wanted: Real, record: LedgerRecord, *others: Any) -> Any:
    """R5: a recovery finds another record than it left; as the rebalancer did once."""
    is_open = record.state is LedgerState.IN_RECOVERY
    return wanted(replace(record, state=LedgerState.OPEN) if is_open else record, *others)


@instead_of(ReplicationWorker, "look_once", within=20, known=1)
async def copies_to_nobody(self: ReplicationWorker) -> None:
    """W6: nothing is ever healed."""


@instead_of(Auditor, "_is_elected", within=400, known=8)
async def nobody_audits(self: Auditor) -> bool:
    """W6: no ledger of a lost bookie is marked."""
    return False


@around(Shortfall, "update_record", within=100, known=8)
def tells_nothing_of_what_lacks(
    update_record: Real, self: Shortfall, record: LedgerRecord, acked: Mapping[int, int], through: int
) -> Any:
    """W6, I13"""
    update_record(self, record, acked, through)
    return record


@instead_of(ledger_recovery, "in_doubt", within=400, known=51)
def a_recovery_knows_everything(record: Any, *_: Any) -> Any:
    """W6, I13: what it did not walk it calls whole."""
    return record
