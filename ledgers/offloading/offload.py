"""Copies a closed ledger to an object store, and removes it from the bookies (rules O1 to O3).

Each step is one compare-and-swap of the ledger's record. The copy is added to the record, with a random key, before the
first byte is uploaded. The record marks the copy as complete only after the copy has been read back. Only then can
another change release the bookies from keeping the ledger. A crash at any point therefore leaves the bookies' copies, a
complete object, or both. The objects of a copy are listed for removal before the copy is removed from the record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from bookie.wire.credentials import Purpose
from metadata.backup import hold
from metadata.rate_limit import RateLimit
from metadata.records.cold import removals
from metadata.records.cold.cold_copy import ColdCopy, check_url, new_key
from metadata.records.cold.removals import Removal
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import VersionedRecord
from metadata.settled_writes import until_changed

from ..cluster import Cluster
from ..cold.errors import BadObject, NotOffloaded, ObjectStoreFailed
from ..errors import LedgerError
from ..ledger_access import Keys, found_of
from ..reading.ledger_view import LedgerView
from ..record_change import metadata_errors
from .upload import PART_BYTES_MAX, check_uploaded, upload

Transition = Callable[[LedgerRecord], LedgerRecord]


async def change(cluster: Cluster, ledger_id: int, transition: Transition) -> LedgerRecord:
    """Applies a pure function, which may raise an error, to a ledger's record. Refuses the change if the metadata store
    went back to an older state and is on hold for that reason."""

    async def attempt(found: VersionedRecord) -> LedgerRecord:
        wanted = transition(found.record)
        if wanted == found.record:
            return wanted
        return (await cluster.ledgers.change(wanted, found.version, unless_held=True)).record

    read = partial(found_of, cluster, ledger_id)
    with metadata_errors():
        return await until_changed(f"ledger {ledger_id}", await read(), attempt, read)


async def offload(
    cluster: Cluster,
    found: VersionedRecord,
    keys: Keys,
    url: str,
    part_bytes_max: int | None = None,
    *,
    pace: RateLimit | None = None,
) -> LedgerRecord:
    """Copies a closed ledger, and returns its record, which refers to the complete copy. Does nothing if the ledger
    already has a complete copy.

    Raises NotOffloaded, NoSuchLedger, ObjectStoreFailed, EntryUnreadable, MetadataUnavailable; in these cases the
    bookies' copies are unchanged.
    """
    record, (digester, key) = found.record, keys
    if record.is_in_object_store:
        return record
    if record.last_entry is None or record.last_entry < 0:
        what = "it is not closed" if record.last_entry is None else "it is empty"
        raise NotOffloaded(record.ledger_id, f"{what}, so there is nothing to copy")
    objects = cluster.cold.stores.at(check_url(url))
    await objects.prepare()
    begun = ColdCopy(objects.url, new_key(record.ledger_id, cluster.rng.randbytes(16)), at_ms=_now_ms())
    await _begin(cluster, record.ledger_id, begun)
    try:
        view = LedgerView(cluster, found, digester, partial(key.credential, Purpose.READ))
        async with asyncio.timeout(removals.UPLOAD_SECONDS_MAX):
            indexes = await upload(view, objects, record, begun, part_bytes_max or PART_BYTES_MAX, pace)
            size = await check_uploaded(objects, begun, indexes, digester)
        starts = tuple(index.first_entries[0] for index in indexes)
        copy = replace(begun, part_starts=starts, size_bytes=size, at_ms=_now_ms())
        return await change(cluster, record.ledger_id, partial(_completed, copy))
    except BaseException as error:
        with suppress(LedgerError):
            await _give_up(cluster, record.ledger_id, begun)
        if isinstance(error, TimeoutError):
            limit = f"{removals.UPLOAD_SECONDS_MAX:g} s"
            raise NotOffloaded(record.ledger_id, f"copying it took longer than {limit}") from error
        if isinstance(error, BadObject):
            raise NotOffloaded(
                record.ledger_id, f"the uploaded objects differ from the ledger: {error}"
            ) from error
        raise


async def _begin(cluster: Cluster, ledger_id: int, begun: ColdCopy) -> None:
    """Adds the new copy to the record. Replaces an unfinished copy that is too old to still be uploading."""
    before = (await found_of(cluster, ledger_id)).record.cold
    if before is not None and not before.is_stored and _is_old(before):
        with metadata_errors():
            await removals.add(cluster.store, ledger_id, before)

    def named(record: LedgerRecord) -> LedgerRecord:
        if record.cold == begun:
            return record
        if record.is_in_object_store:
            raise NotOffloaded(ledger_id, "another program has copied it in the meantime")
        if record.cold is not None and not (record.cold == before and _is_old(record.cold)):
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.cold.at_ms / 1000))
            raise NotOffloaded(
                ledger_id,
                f"another program has been copying it since {since}; if that program died, copy the ledger again a day "
                "later, or cancel the copy with `bookledger ledger recall`",
            )
        return record.uploading(begun)

    await change(cluster, ledger_id, named)
    if before is not None:
        with suppress(ObjectStoreFailed):  # the old copy's objects stay on the removal list
            await remove_unneeded(cluster, before.key)


def _completed(copy: ColdCopy, record: LedgerRecord) -> LedgerRecord:
    if record.cold == copy:
        return record
    if record.cold is None or record.cold.key != copy.key:
        raise NotOffloaded(record.ledger_id, "another program has replaced this copy in the meantime")
    return record.uploading(copy)


async def _give_up(cluster: Cluster, ledger_id: int, copy: ColdCopy) -> None:
    """Removes everything that an upload left behind, unless the upload was completed and only the response was lost."""
    with metadata_errors():
        await removals.add(cluster.store, ledger_id, copy, is_over=True)

    def unnamed(record: LedgerRecord) -> LedgerRecord:
        is_ours = record.cold is not None and record.cold.key == copy.key and not record.cold.is_stored
        return record.forgetting_copy() if is_ours else record

    await change(cluster, ledger_id, unnamed)
    await remove_unneeded(cluster, copy.key)


async def take_off_bookies(cluster: Cluster, ledger_id: int) -> LedgerRecord:
    """Releases the bookies from keeping the ledger: they drop it during their next garbage collection. First checks
    that all objects exist. Raises NotOffloaded, ObjectStoreFailed."""
    record = (await found_of(cluster, ledger_id)).record
    copy = record.cold
    if copy is None or not copy.is_stored:
        raise NotOffloaded(ledger_id, "it has no copy in an object store")
    size = await size_of(cluster, copy)
    if size != copy.size_bytes:
        raise NotOffloaded(ledger_id, f"its objects have {size} bytes instead of {copy.size_bytes}")

    def taken_off(now: LedgerRecord) -> LedgerRecord:
        if now.cold != copy:
            raise NotOffloaded(ledger_id, "its copy has changed in the meantime")
        return now.without_copies()

    return await change(cluster, ledger_id, taken_off)


async def size_of(cluster: Cluster, copy: ColdCopy) -> int:
    """Returns the total size in bytes of the objects of a copy. Raises NoSuchObject, ObjectStoreFailed."""
    objects = cluster.cold.stores.at(copy.url)
    return sum([await objects.size(copy.name_of(part)) for part in range(len(copy.part_starts))])


async def remove_unneeded(cluster: Cluster, key: str = "") -> int:
    """Deletes the objects on the removal list that no record refers to; with a `key`, only the objects of that copy.
    Returns the number of deleted objects.

    An object that cannot be deleted stays on the list; the first failure is raised once all objects have been tried.
    """
    count, failure = 0, None
    with metadata_errors():
        await hold.check_accepted(cluster.store)
        listed = [one async for one in removals.list_removals(cluster.store) if key in ("", one.key)]
    for one in listed:
        try:
            count += await _remove(cluster, one)
        except LedgerError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return count


async def _remove(cluster: Cluster, one: Removal) -> int:
    with metadata_errors():
        found = await cluster.ledgers.read(one.ledger_id)
        named = None if found is None else found.record.cold
        is_needed = named is not None and named.key == one.key
        count = 0 if is_needed else await cluster.cold.stores.at(one.url).delete_all(one.key)
        if one.is_old or not (is_needed or one.may_grow):
            await removals.done(cluster.store, one)
    return count


def _is_old(copy: ColdCopy) -> bool:
    return copy.at_ms < _now_ms() - removals.UPLOAD_SECONDS_MAX * 1000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
