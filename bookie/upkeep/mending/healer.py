"""Re-replicates one ledger to one bookie: fetches entries that it lacks, and takes over positions from other bookies.

Each change happens in this order, so that a crash at any point leaves either the old record, under which the copied
entries are garbage (`collector.py` drops them, under the lock that the healer's callers hold), or the new record with
every entry here:

1. All entries of the positions are fetched and stored here, synced, except those that are here already.
2. One compare-and-swap records that this bookie holds them. On a conflict, the process starts over.
3. The record's notes are stored here.

A copy that counts is never dropped before its replacement counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from metadata.errors import KeepsChanging
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.settled_writes import until_changed

from ..inventory.placed_entries import Part, shares
from ..reports import Tally
from .gap_filling import Mender
from .replication_task import Reason, ReplicationTask

COPIED_FROM_ITSELF = (Reason.DRAINING, Reason.MOVED, Reason.MISPLACED)
"""Reasons for making a copy even though the old copy can be read."""

Chosen = Callable[[LedgerRecord], Sequence[ReplicationTask]]
"""Chooses those of a record's replication tasks that this bookie is to execute."""


class Healer:
    """Re-replicates to `me`. Callers must hold the upkeep lock."""

    def __init__(self, ledgers: LedgerStore, me: BookieRef, mender: Mender) -> None:
        self._ledgers = ledgers
        self._me = me
        self._mender = mender

    async def heal(self, tally: Tally, chosen: Chosen) -> LedgerRecord | None:
        """Executes the `chosen` tasks; returns the resulting record, or None if the ledger is deleted.

        Failed tasks are recorded in the tally. Raises PeersFailed, MetadataError and DiskIsFull; in that case entries
        may have been copied, but the record is unchanged.
        """
        read = partial(self._ledgers.read, tally.ledger_id)
        attempt = partial(self._attempt, tally, chosen)
        try:
            return await until_changed(f"ledger {tally.ledger_id}", await read(), attempt, read)
        except KeepsChanging as error:
            tally.fail(str(error))
            return None

    async def _attempt(
        self, tally: Tally, chosen: Chosen, found: VersionedRecord | None
    ) -> LedgerRecord | None:
        wanted = [] if found is None else chosen(found.record)
        if found is None or not wanted:
            return None if found is None else found.record
        healed = found.record
        for task in wanted:
            healed = await self._healed(found.record, healed, task, tally)
        if healed == found.record:
            return healed
        stands = await self._ledgers.change(healed.left_by_writer(found.version), found.version)
        before = found.record.fragments
        tally.fragments_moved += sum(
            one != other for one, other in zip(before, healed.fragments, strict=True)
        )
        await self._mender.keep_notes(stands.record, self._me)
        return stands.record

    async def _healed(
        self, record: LedgerRecord, healed: LedgerRecord, task: ReplicationTask, tally: Tally
    ) -> LedgerRecord:
        """Fetches the entries of a task; returns the resulting record, which is unchanged if entries could not be
        fetched."""
        mine = Tally(tally.ledger_id)
        part, first = record.closed_part(), task.fragment.first_entry
        assert part is not None
        here = task.bookie == self._me
        without = self._me if here or task.reason in COPIED_FROM_ITSELF else task.bookie
        await self._mender.fill(
            part, _parts(part, task, only_lacking=here), mine, without=without, verify=not here
        )
        tally.add(mine)
        if mine.why_not:
            return healed
        return healed.whole_at(first, self._me) if here else healed.moved(first, task.bookie, self._me)


def _parts(part: LedgerRecord, task: ReplicationTask, *, only_lacking: bool) -> list[Part]:
    """Returns the parts to fetch: all that the fragment places at the task's bookie or, with `only_lacking`, only those
    that the bookie may lack."""
    held = [share for share in shares(part, task.bookie) if share.first_entry == task.fragment.first_entry]
    lack = task.fragment.lacking_at(task.position) if only_lacking else None
    first, last = (
        (lack.first_entry, lack.last_entry) if lack else (task.fragment.first_entry, task.last_entry)
    )
    return [(share, found) for share in held if (found := share.between(first, last)) is not None]
