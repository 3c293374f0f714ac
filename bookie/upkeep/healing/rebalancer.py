"""Moves copies to this bookie from fuller ones, as an operator has planned (`metadata/healing/planned_moves`).

It works like the healer: all entries are stored on this bookie before the record names it (H1). A move that no longer
fits the ledger's record is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from metadata import placement
from metadata.backup import hold
from metadata.errors import BadRecord
from metadata.healing import planned_moves
from metadata.healing.planned_moves import Move
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from metadata.store import MetadataStore

from ...upkeep_config import UpkeepConfig
from ..mending.healer import Healer
from ..mending.repair import COULD_NOT
from ..mending.replication_task import Reason, ReplicationTask
from ..polling import poll
from ..reports import Tally
from .cluster_view import ClusterView, look
from .replication_tasks import replication_tasks

log = logging.getLogger(__name__)


class Rebalancer:
    """Executes planned moves to one bookie. Belongs to the event loop; `run` runs until cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        me: BookieRef,
        healer: Healer,
        upkeep: asyncio.Lock,
        config: UpkeepConfig,
    ) -> None:
        self._store = store
        self._me = me
        self._healer = healer
        self._upkeep = upkeep
        self._config = config

    async def run(self) -> None:
        """Polls for planned moves until cancelled, or until the log has failed."""
        await poll(self.look_once, log, "rebalancing was interrupted, and will be retried")

    async def look_once(self) -> None:
        """Executes the moves currently planned to this bookie. Raises BookieError, MetadataError and OSError."""
        if await hold.read(self._store) is not None:
            return
        view: ClusterView | None = None
        async for found in planned_moves.list_moves(self._store):
            mine = [move for move in found.moves if move.new == self._me]
            if not mine:
                continue
            if view is None:
                view = await look(self._store, self._config.lost_bookie_ms)
            if all(one.bookie != self._me for one in view.takers()):
                return  # full, draining or no longer registered: the moves remain planned
            await self._take(found.ledger_id, mine, view)

    async def _take(self, ledger_id: int, mine: Sequence[Move], view: ClusterView) -> None:
        """Attempts one ledger's moves only once: after a failure, the next plan takes the new state into account."""
        tally = Tally(ledger_id)
        try:
            async with self._upkeep:
                await self._healer.heal(tally, lambda record: wanted(record, mine, view))
        except (*COULD_NOT, BadRecord) as error:
            tally.fail(str(error))
        if tally.why_not:
            log.warning(
                "ledger %d was not moved here: %s", ledger_id, tally.why_not, extra={"ledger": ledger_id}
            )
        await planned_moves.drop(self._store, ledger_id, mine)


def wanted(record: LedgerRecord, mine: Sequence[Move], view: ClusterView) -> list[ReplicationTask]:
    """Returns the moves that are still valid: those of complete copies, in fragments that need no re-replication.

    No move is valid while the ledger is in recovery, because its recoverer would find a changed record and start over.
    """
    part = None if record.state is LedgerState.IN_RECOVERY else record.closed_part()
    if part is None:
        return []
    amiss = {task.fragment.first_entry for task in replication_tasks(record, view)}
    found = []
    for fragment, last in part.spans():
        assert last is not None
        for move in mine:
            if (
                move.first_entry == fragment.first_entry
                and fragment.first_entry not in amiss
                and fragment.admits(move.new, in_place_of=move.old)
            ):
                position = fragment.ensemble.index(move.old)
                task = ReplicationTask(fragment, last, position, Reason.MOVED, record.shape.write_quorum)
                if stands_no_worse(task, move.new, view):
                    found.append(task)
    return found


def stands_no_worse(task: ReplicationTask, new: BookieRef, view: ClusterView) -> bool:
    """Returns whether the new bookie shares its fault domain with no more of the other copies than the old bookie
    does."""
    old, living = view.living.get(task.bookie), view.living
    beside = [living[one] for one in task.beside if one in living]
    if new not in living:
        return False
    return old is None or placement.rank(living[new], beside)[0] <= placement.rank(old, beside)[0]
