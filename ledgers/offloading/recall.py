"""Moves a ledger back from an object store to bookies (rule O3)."""

from __future__ import annotations

from metadata.healing.marks import mark_if_underreplicated
from metadata.records.cluster import list_bookies
from metadata.records.cold import removals
from metadata.records.ledger_record import LedgerRecord

from ..bookies.ensembles import first_fragment
from ..cluster import Cluster
from ..cold.errors import NotOffloaded
from ..ledger_access import found_of
from ..record_change import metadata_errors
from .offload import change, remove_unneeded


async def recall(cluster: Cluster, ledger_id: int) -> LedgerRecord:
    """Performs the next step of moving a ledger back to bookies. The ledger can be read at all times.

    The first step chooses bookies, and healing copies the ledger to them. Once all of them have the ledger, the next
    step removes the copy from the record and deletes its objects. An unfinished upload is cancelled. `cold` of the
    returned record is None when nothing is left to do.

    Raises NoSuchLedger, NotEnoughBookies, ObjectStoreFailed, MetadataUnavailable.
    """
    record = (await found_of(cluster, ledger_id)).record
    if record.is_in_object_store and record.has_no_ensembles:
        return await _place(cluster, record)
    if record.cold is not None and (not record.cold.is_stored or await _is_on_bookies(cluster, record)):
        return await _forget_copy(cluster, record)
    return record


async def _is_on_bookies(cluster: Cluster, record: LedgerRecord) -> bool:
    """Returns whether every copy on a bookie is complete and its bookie is registered. A copy on an unregistered bookie
    may be lost; the auditor replaces such a copy first."""
    with metadata_errors():
        registered = {one.bookie for one in await list_bookies(cluster.store)}
    return not record.may_lack_entries and all(
        registered.issuperset(one.ensemble) for one in record.fragments
    )


async def _place(cluster: Cluster, record: LedgerRecord) -> LedgerRecord:
    chosen = (await first_fragment(cluster, record.shape)).ensemble

    def placed(now: LedgerRecord) -> LedgerRecord:
        is_nowhere = now.is_in_object_store and now.has_no_ensembles
        return now.recalled(chosen) if is_nowhere else now

    made = await change(cluster, record.ledger_id, placed)
    await mark_if_underreplicated(cluster.marks, made)
    return made


async def _forget_copy(cluster: Cluster, record: LedgerRecord) -> LedgerRecord:
    copy = record.cold
    assert copy is not None
    with metadata_errors():
        await removals.add(cluster.store, record.ledger_id, copy)

    def without(now: LedgerRecord) -> LedgerRecord:
        if now.cold is None:
            return now
        is_on_bookies = not (now.has_no_ensembles or now.may_lack_entries)
        if now.cold.key != copy.key or (now.cold.is_stored and not is_on_bookies):
            raise NotOffloaded(record.ledger_id, "some bookies have lost parts of it; try again")
        return now.forgetting_copy()

    made = await change(cluster, record.ledger_id, without)
    await remove_unneeded(cluster, copy.key)
    return made
