"""Bugs planted in what moves ledgers to an object store and back, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ledgers.cluster import Cluster
from ledgers.cold.object_store import Objects
from ledgers.offloading import offload
from metadata.records.cold import removals
from metadata.records.cold.cold_copy import ColdCopy
from metadata.records.cold.removals import Removal
from metadata.records.ledger_record import Ensemble, LedgerRecord
from metadata.records.notes.cold_index import ColdIndex
from tests.simulation.engine.planted import Real, around, instead_of


@instead_of(offload, "check_uploaded", within=400, known=93)
async def calls_a_copy_complete_that_it_has_not_read(
    objects: Objects, copy: ColdCopy, indexes: Sequence[ColdIndex], digester: Any
) -> int:
    """O1"""
    return sum([await objects.size(copy.name_of(index.part)) for index in indexes])


@around(LedgerRecord, "recalled", within=400, known=27)
def calls_copies_whole_that_are_still_to_be_made(
    recalled: Real, self: LedgerRecord, ensemble: Ensemble
) -> LedgerRecord:
    """O3"""
    record: LedgerRecord = recalled(self, ensemble)
    return replace(record, fragments=tuple(replace(one, lacking=()) for one in record.fragments))


@instead_of(offload, "_remove", within=400, known=130)
async def forgets_objects_while_a_record_is_about_to_stop_naming_them(cluster: Cluster, one: Removal) -> int:
    """O3: as it did once."""
    found = await cluster.ledgers.read(one.ledger_id)
    named = None if found is None else found.record.cold
    is_needed = named is not None and named.key == one.key
    count = 0 if is_needed else await cluster.cold.stores.at(one.url).delete_all(one.key)
    await removals.done(cluster.store, one)
    return count


@instead_of(offload, "_remove", within=400, known=364)
async def deletes_objects_without_a_look_at_the_record(cluster: Cluster, one: Removal) -> int:
    """O3"""
    count = await cluster.cold.stores.at(one.url).delete_all(one.key)
    await removals.done(cluster.store, one)
    return count
