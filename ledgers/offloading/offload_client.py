"""The methods of `LedgerClient` for object stores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import aclosing

from bookie.wire.trust.roles import Right
from metadata.audit import Act, record_audit
from metadata.healing.marks import mark_if_underreplicated
from metadata.records.cluster import list_bookies
from metadata.records.cold import removals
from metadata.records.cold.cold_copy import check_url
from metadata.records.ledger_record import LedgerRecord

from ..bookies.ensembles import first_fragment
from ..cluster import Cluster
from ..cold.cold_reader import ColdCache, ColdReader
from ..cold.errors import NotOffloaded
from ..errors import Unauthorized
from ..ledger_access import audit_refusals, found_of, keys_of
from ..record_change import metadata_errors
from .offload import change, offload, remove_unneeded, take_off_bookies
from .offloader import Offloader
from .policy import OffloadPolicy


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
    """Returns whether every copy on bookies is complete and every bookie with a copy is registered. A copy on an
    unregistered bookie may be lost; the auditor replaces such a copy first."""
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


class OffloadClient(ABC):
    """Copies closed ledgers to object stores and back."""

    @abstractmethod
    async def _connected(self) -> Cluster:
        """Connects if the client is not connected yet."""

    async def offload_ledger(
        self, ledger_id: int, url: str, *, password: bytes = b"", keep_on_bookies: bool = False
    ) -> LedgerRecord:
        """Copies a closed ledger to an object store, verifies the copy by reading it back, and has the bookies drop
        their copies.

        Returns the ledger's record. `url` identifies the store: `s3://bucket/prefix`, `gs://bucket/prefix`,
        `az://container/prefix` or `file:///directory`. It contains no credentials; these come from the environment.
        From then on, every reader reads the ledger from the store, and needs credentials as well. With
        `keep_on_bookies` the bookies keep their copies, and readers prefer them. A ledger that has a copy is not copied
        again.

        Raises NotOffloaded if the ledger is not closed, is empty, or is being copied by another program;
        ObjectStoreFailed, EntryUnreadable, NoSuchLedger, Unauthorized, MetadataUnavailable. In these cases the bookies'
        copies are unchanged, and the call can be repeated.
        """
        cluster = await self._connected()
        with metadata_errors():
            found = await found_of(cluster, ledger_id)
            keys = await keys_of(cluster, found, password, Right.READ)
            _check_may_move(cluster, found.record, password)
            record = await offload(cluster, found, keys, url)
            if not keep_on_bookies:
                record = await take_off_bookies(cluster, ledger_id)
        assert record.cold is not None
        record_audit(Act.OFFLOAD, who=cluster.who, ledger_id=ledger_id, to=record.cold.url)
        return record

    async def recall_ledger(self, ledger_id: int, *, password: bytes = b"") -> LedgerRecord:
        """Performs the next step of moving a ledger back to the bookies, and returns its record.

        Call it again until `cold` of the returned record is None. The ledger can be read at all times. The first step
        chooses bookies, and healing copies the ledger from the object store to them. Once all of them have the ledger,
        the last step deletes its objects. Raises NoSuchLedger, NotEnoughBookies, ObjectStoreFailed, Unauthorized,
        MetadataUnavailable.
        """
        cluster = await self._connected()
        with metadata_errors():
            found = await found_of(cluster, ledger_id)
            await keys_of(cluster, found, password)
            _check_may_move(cluster, found.record, password)
            record = await recall(cluster, ledger_id)
        if record.cold is None and found.record.cold is not None:
            record_audit(Act.RECALL, who=cluster.who, ledger_id=ledger_id)
        return record

    async def check_copy(self, ledger_id: int, *, password: bytes = b"") -> int:
        """Reads a ledger's copy in an object store, verifies every block and digest, and returns the number of entries.

        Raises NotOffloaded if there is no complete copy, EntryUnreadable or DigestMismatch for the first entry that is
        missing or wrong, NoSuchLedger, Unauthorized, MetadataUnavailable.
        """
        cluster = await self._connected()
        with metadata_errors():
            found = await found_of(cluster, ledger_id)
        digester, _ = await keys_of(cluster, found, password, Right.READ)
        if not found.record.is_in_object_store or found.record.last_entry is None:
            raise NotOffloaded(ledger_id, "it has no copy in an object store")
        count = 0
        reader = ColdReader(ColdCache(), found.record, digester)
        async with aclosing(reader.pages(0, found.record.last_entry)) as pages:
            async for page in pages:
                count += len(page)
        return count

    async def remove_unneeded_objects(self) -> int:
        """Deletes the objects that no ledger's record refers to: those of deleted ledgers and of failed uploads.

        Returns the number of deleted objects. Raises ObjectStoreFailed, MetadataUnavailable; in that case repeat the
        call.
        """
        return await remove_unneeded(await self._connected())

    async def offloader(
        self, url: str, policy: OffloadPolicy, *, bytes_per_second: float = math.inf
    ) -> Offloader:
        """Returns an offloader, which copies ledgers to the object store at `url` according to a policy. Only the
        leader of the election `ELECTION` may run its rounds."""
        return Offloader(await self._connected(), check_url(url), policy, bytes_per_second)


def _check_may_move(cluster: Cluster, record: LedgerRecord, password: bytes) -> None:
    """Raises Unauthorized unless the client may delete the ledger: this right is needed to move the ledger to an object
    store or to delete its copy there."""
    with audit_refusals(cluster, record.ledger_id, "offload"):
        if why := cluster.why_not_deleted(record, is_proven=bool(password)):
            raise Unauthorized(record.ledger_id, why=why)
