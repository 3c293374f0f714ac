"""What `LedgerClient` does with object stores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import aclosing

from bookie.wire.trust.roles import Right
from metadata.audit import Act, tell
from metadata.records.cold.cold_copy import check_url
from metadata.records.ledger_record import LedgerRecord

from ..authorized import found_of, keys_of, refusals_told
from ..cluster import Cluster
from ..cold.cold_reader import ColdCache, ColdReader
from ..cold.errors import NotOffloaded
from ..errors import Unauthorized
from ..record_change import metadata_errors
from .offload import offload, remove_unneeded, take_off_bookies
from .offloader import Offloader
from .policy import OffloadPolicy
from .recall import recall


class OffloadClient(ABC):
    """Copies closed ledgers to object stores, and back."""

    @abstractmethod
    async def _connected(self) -> Cluster:
        """Connects where that was not done yet."""

    async def offload_ledger(
        self, ledger_id: int, url: str, *, password: bytes = b"", keep_on_bookies: bool = False
    ) -> LedgerRecord:
        """Copies a closed ledger to an object store, reads the copy back, and has bookies drop theirs; its record.

        `url` names the store: `s3://bucket/prefix`, `gs://`, `az://` or `file:///directory`, without credentials, which
        the environment gives. From then on every reader of the ledger reads it from there, so it needs them, too. With
        `keep_on_bookies` these keep what they have, and are read first. A ledger that has a copy is not copied again.

        Raises NotOffloaded for a ledger that is not closed, is empty, or is being copied by somebody else;
        ObjectStoreFailed, EntryUnreadable, NoSuchLedger, Unauthorized, MetadataUnavailable. Then bookies have all that
        they had, and it can be done again.
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
        tell(Act.OFFLOAD, who=cluster.who, ledger_id=ledger_id, to=record.cold.url)
        return record

    async def recall_ledger(self, ledger_id: int, *, password: bytes = b"") -> LedgerRecord:
        """Does the next step of bringing a ledger back to bookies, and returns its record: call it again until `cold`
        of that is None. It can be read all the time.

        First bookies are chosen, whose healing copies it from the object store; once all have it, its objects are
        deleted. Raises NoSuchLedger, NotEnoughBookies, ObjectStoreFailed, Unauthorized, MetadataUnavailable.
        """
        cluster = await self._connected()
        with metadata_errors():
            found = await found_of(cluster, ledger_id)
            await keys_of(cluster, found, password)
            _check_may_move(cluster, found.record, password)
            record = await recall(cluster, ledger_id)
        if record.cold is None and found.record.cold is not None:
            tell(Act.RECALL, who=cluster.who, ledger_id=ledger_id)
        return record

    async def check_copy(self, ledger_id: int, *, password: bytes = b"") -> int:
        """Reads all of a ledger's copy in an object store, and verifies every block and digest; returns its entries.

        Raises NotOffloaded for a ledger without a complete copy, EntryUnreadable and DigestMismatch for the first entry
        that is wrong or missing, NoSuchLedger, Unauthorized, MetadataUnavailable.
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
        """Deletes objects in object stores that no ledger's record names any more: of deleted ledgers, and of uploads
        that were given up. Returns how many. Raises ObjectStoreFailed, MetadataUnavailable: then it can be done again.
        """
        return await remove_unneeded(await self._connected())

    async def offloader(
        self, url: str, policy: OffloadPolicy, *, bytes_per_second: float = math.inf
    ) -> Offloader:
        """What copies ledgers to this object store as a policy says; for the leader of the election `ELECTION`."""
        return Offloader(await self._connected(), check_url(url), policy, bytes_per_second)


def _check_may_move(cluster: Cluster, record: LedgerRecord, password: bytes) -> None:
    """It is left to one object store, or its copy there is deleted: that takes the rights of a deletion."""
    with refusals_told(cluster, record.ledger_id, "offload"):
        if why := cluster.why_not_deleted(record, is_proven=bool(password)):
            raise Unauthorized(record.ledger_id, why=why)
