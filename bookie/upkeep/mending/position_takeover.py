"""Takes over the positions of a lost bookie, which may be a former incarnation of this one, at an operator's request.

`healer.py` describes how a position changes hands. A ledger whose last ensemble names the lost bookie is closed first;
of other open ledgers, only the closed fragments are taken over.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence

from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from metadata.records.ledger_store import LedgerStore

from ..repair_client import Peers
from ..reports import Tally
from .healer import Healer
from .replication_task import Reason, ReplicationTask

STANDS_THERE = (
    "another bookie has to take over the position from entry %s on: this one is already in that ensemble"
)
STANDS_WORSE = (
    "another bookie is better placed from entry %s on: leave the position to the cluster, or adopt it there"
)
FRAGMENTS_NAMED_MAX = 10

MayTake = Callable[[ReplicationTask], bool]
"""Decides whether this bookie would be placed at least as well as any other, relative to the remaining copies."""


class PositionTakeover:
    """Replaces every incarnation of `bookie_id` that is not in `alive` by `me`. Callers must hold the upkeep lock."""

    def __init__(
        self,
        ledgers: LedgerStore,
        me: BookieRef,
        peers: Peers,
        healer: Healer,
        bookie_id: str,
        alive: Collection[BookieRef],
        may_take: MayTake,
    ) -> None:
        self._ledgers = ledgers
        self._me = me
        self._peers = peers
        self._healer = healer
        self._bookie_id = bookie_id
        self._alive = alive
        self._may_take = may_take

    async def ledgers(self) -> Sequence[int]:
        """Returns the ledgers that name the lost bookie. Raises MetadataError."""
        found = array("q")
        async for one in self._ledgers.list():
            if self._lost(one.record):
                found.append(one.record.ledger_id)
        return found

    async def adopt(self, tally: Tally) -> None:
        """Takes over one ledger's positions; records failed tasks in the tally.

        Raises PeersFailed, MetadataError and DiskIsFull; in that case entries may have been copied, but the record is
        unchanged.
        """
        found = await self._ledgers.read(tally.ledger_id)
        if found is not None and self._must_be_closed(found.record):
            await self._peers.recover(tally.ledger_id)
        record = await self._healer.heal(tally, self._ours)
        if record is not None and not tally.why_not:
            self._record_remaining(record, tally)

    def _must_be_closed(self, record: LedgerRecord) -> bool:
        """Returns whether the ledger has to be recovered first: it is in recovery, or it is not closed although its
        last ensemble names the lost bookie, which a live writer would have replaced."""
        in_use = record.fragments[-1].ensemble
        is_named = any(one in in_use for one in self._lost(record))
        return record.state is LedgerState.IN_RECOVERY or (not record.is_closed and is_named)

    def _ours(self, record: LedgerRecord) -> list[ReplicationTask]:
        return [task for task in self._needs(record) if self._admits_me(task) and self._may_take(task)]

    def _admits_me(self, task: ReplicationTask) -> bool:
        return task.fragment.admits(self._me, in_place_of=task.bookie)

    def _needs(self, record: LedgerRecord) -> list[ReplicationTask]:
        """Returns the tasks for the lost bookies' positions in the closed part of the ledger."""
        part, lost = record.closed_part(), self._lost(record)
        spans = () if part is None else part.spans()
        return [
            ReplicationTask(fragment, last, position, Reason.LOST, record.shape.write_quorum)
            for fragment, last in spans
            if last is not None
            for position, bookie in enumerate(fragment.ensemble)
            if bookie in lost
        ]

    def _record_remaining(self, record: LedgerRecord, tally: Tally) -> None:
        left = self._needs(record)
        worse = [task for task in left if self._admits_me(task)]
        for why, replication_tasks in (
            (STANDS_THERE, [task for task in left if task not in worse]),
            (STANDS_WORSE, worse),
        ):
            if replication_tasks:
                tally.fail(
                    why
                    % ", ".join(str(n.fragment.first_entry) for n in replication_tasks[:FRAGMENTS_NAMED_MAX])
                )

    def _lost(self, record: LedgerRecord) -> list[BookieRef]:
        """Returns those incarnations of the lost bookie in the record that are not alive."""
        named = {bookie for fragment in record.fragments for bookie in fragment.ensemble}
        return sorted(one for one in named if one.bookie_id == self._bookie_id and one not in self._alive)
