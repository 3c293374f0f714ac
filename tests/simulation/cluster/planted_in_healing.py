"""Bugs planted in what makes missing copies: writers and recoveries that tell what lacks, auditor, workers, stock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bookie.log.format import Record
from bookie.storage.bookie import Bookie
from bookie.storage.core import state_record
from bookie.upkeep.healing import rebalancer as rebalancer_module
from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.replication_tasks import takers
from bookie.upkeep.healing.view import ClusterView
from bookie.upkeep.healing.worker import Worker
from bookie.upkeep.mending import healer as healer_module
from bookie.upkeep.mending import limbo
from bookie.upkeep.mending.gap_filling import Mender
from bookie.upkeep.mending.replication_task import ReplicationTask
from ledgers.protocol import recovery
from ledgers.protocol.shortfall import Shortfall
from metadata.records.ledger_record import LedgerRecord, LedgerState

Patch = pytest.MonkeyPatch


def takes_a_place_with_nothing_in_it(patch: Patch) -> None:
    """W3: the metadata names a bookie that has none of the entries."""

    async def broken(self: Mender, *arguments: Any, **others: Any) -> None:
        """Nothing is fetched."""

    patch.setattr(Mender, "fill", broken)


def takes_what_another_lacks_for_all_that_it_holds(patch: Patch) -> None:
    """W3: as the worker did once."""
    parts = healer_module._parts

    def broken(part: LedgerRecord, task: ReplicationTask, *, only_lacking: bool) -> Any:
        del only_lacking
        return parts(part, task, only_lacking=True)

    def mine(self: Worker, task: ReplicationTask, view: ClusterView) -> bool:
        if task.bookie == self._me:
            return True
        return any(one.bookie == self._me for one in takers(task, view))

    patch.setattr(healer_module, "_parts", broken)
    patch.setattr(Worker, "_is_mine", mine)


def leaves_closed_ledgers_unfenced(patch: Patch) -> None:
    """R1: a bookie that may have lost a fence takes more from the writer of a ledger that is closed; as it did once."""
    in_limbo = limbo._in_limbo

    def broken(bookie: Bookie, record: LedgerRecord) -> Record:
        fence = bookie.states.hold(record.ledger_id).fence
        said = in_limbo(bookie, record)
        if not record.is_closed:
            return said
        state = bookie.states.hold(record.ledger_id)
        state.fence = fence
        return state_record(state)

    patch.setattr(limbo, "_in_limbo", broken)


def moves_what_is_being_recovered(patch: Patch) -> None:
    """R5: a recovery finds another record than it left; as the rebalancer did once."""
    wanted = rebalancer_module.wanted

    def broken(record: LedgerRecord, *others: Any) -> Any:
        is_open = record.state is LedgerState.IN_RECOVERY
        return wanted(replace(record, state=LedgerState.OPEN) if is_open else record, *others)

    patch.setattr(rebalancer_module, "wanted", broken)


def copies_to_nobody(patch: Patch) -> None:
    """W6: nothing is ever healed."""

    async def broken(self: Worker) -> None:
        """Not today."""

    patch.setattr(Worker, "look_once", broken)


def nobody_audits(patch: Patch) -> None:
    """W6: no ledger of a lost bookie is marked."""

    async def broken(self: Auditor) -> bool:
        return False

    patch.setattr(Auditor, "_is_elected", broken)


def tells_nothing_of_what_lacks(patch: Patch) -> None:
    """W6, I13"""
    told = Shortfall.told

    def broken(self: Shortfall, record: LedgerRecord, acked: Mapping[int, int], through: int) -> LedgerRecord:
        told(self, record, acked, through)
        return record

    patch.setattr(Shortfall, "told", broken)


def a_recovery_knows_everything(patch: Patch) -> None:
    """W6, I13: what it did not walk it calls whole."""
    patch.setattr(recovery, "in_doubt", lambda record, *_: record)
