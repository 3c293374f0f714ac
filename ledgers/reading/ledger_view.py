"""A reader's view of a ledger: its record, and how far it is confirmed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from bookie.wire import NO_CREDENTIAL, NO_ENTRY, Credential
from metadata.errors import MetadataError, WatchCompacted
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import VersionedRecord

from ..cluster import Cluster
from ..cold.cold_reader import ColdReader
from ..errors import LedgerError, MetadataUnavailable, MetadataWentBack, NoSuchLedger
from ..integrity.digest import Digester
from ..protocol.striping import Striping
from ..record_change import check_not_older, lost_record_error

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""How often a watched record is also read, because a watch does not report that a store has gone back to an older copy.
"""

Prove = Callable[[str], Credential]
"""Proves to the bookie with this incarnation that the caller may read the ledger."""


class LedgerView:
    """One reader's view of one ledger. It never goes back to an older state; `changed` is set whenever the record
    changes."""

    def __init__(
        self, cluster: Cluster, found: VersionedRecord, digester: Digester, prove: Prove | None = None
    ) -> None:
        self.cluster = cluster
        self.digester = digester
        self.striping = Striping(found.record.shape)
        self.record: LedgerRecord = found.record
        self.last_add_confirmed = NO_ENTRY
        self.writer_address = ""
        """Address from which the ledger's writer last sent data, as seen by a bookie; "" if no bookie reported it."""
        self._length = NO_ENTRY, 0
        self.changed = asyncio.Event()
        self._version = found.version
        self._look_at: float | None = None
        self._prove = prove
        self._credentials: dict[str, Credential] = {}
        self._take(found)

    @property
    def ledger_id(self) -> int:
        return self.record.ledger_id

    @property
    def identity(self) -> bytes:
        return self.record.identity

    @property
    def is_closed(self) -> bool:
        return self.record.is_closed

    def last_entry_of_fragment(self, entry_id: int) -> int | None:
        """Returns the last entry of this entry's fragment; None for the last fragment, whose end is unknown."""
        later = [f.first_entry for f in self.record.fragments if f.first_entry > entry_id]
        return min(later) - 1 if later else None

    def in_object_store(self) -> ColdReader:
        """Returns a reader of the ledger's copy in the object store."""
        return ColdReader(self.cluster.cold, self.record, self.digester)

    def credential(self, bookie: BookieRef) -> Credential:
        """Returns the credential for requests to this bookie about the ledger. It is created once per bookie, and is
        blank if no password is used."""
        if self._prove is None or not self.record.verifier:
            return NO_CREDENTIAL
        made = self._credentials.get(bookie.incarnation)
        if made is None:
            made = self._credentials[bookie.incarnation] = self._prove(bookie.incarnation)
        return made

    @property
    def length_bytes(self) -> int | None:
        """Payload bytes of the entries through the last-add-confirmed; None if no bookie has reported them."""
        if self.is_closed:
            return self.record.length_bytes
        last_entry, length_bytes = self._length
        return length_bytes if last_entry == self.last_add_confirmed else None

    def note_lac(self, last_entry: int, length_bytes: int = 0) -> None:
        """Records a verified last-add-confirmed from a bookie."""
        # The metadata states the end of a closed ledger; a bookie may know of a later LAC (F5).
        if not self.is_closed:
            self._length = max(self._length, (last_entry, length_bytes))
            self.last_add_confirmed = max(self.last_add_confirmed, last_entry)

    async def refresh(self) -> None:
        """Reads the record again. Raises NoSuchLedger, ClientClosed or MetadataUnavailable, in particular its subclass
        MetadataWentBack if the record seen before is missing or older, and the ledger was not deleted."""
        known = self._version
        try:
            found = await self.cluster.ledgers.read_again(self.record)
            if found is None:
                raise await lost_record_error(self.cluster.ledgers, self.ledger_id)
        except MetadataError as error:
            raise self._unavailable("read the metadata of", error) from error
        check_not_older(f"the record of ledger {self.ledger_id}", found.version, known)
        self._take(found)

    async def follow(self) -> None:
        """Watches the record and adopts each new version, until cancelled. Raises as `refresh` does."""
        while True:
            try:
                changes = self.cluster.ledgers.watch(self.ledger_id, after_revision=self._version)
                async with aclosing(changes) as records:
                    async for found in records:
                        self._take(found)
            except WatchCompacted:
                await self.refresh()
            except MetadataError as error:
                raise self._unavailable("follow", error) from error

    async def look(self) -> None:
        """Reads the record every LOOK_SECONDS until cancelled. A later call continues the current interval, so
        following the ledger only briefly does not cause an additional read. Raises as `refresh` does, except if the
        store does not answer."""
        now = asyncio.get_running_loop().time
        while True:
            if self._look_at is None:
                self._look_at = now() + LOOK_SECONDS
            await asyncio.sleep(self._look_at - now())
            self._look_at = None
            try:
                await self.refresh()
            except MetadataWentBack:
                raise
            except MetadataUnavailable as error:
                log.info("%s", error, extra={"ledger": self.ledger_id})

    def _unavailable(self, what: str, error: MetadataError) -> LedgerError:
        return self.cluster.why_failed(MetadataUnavailable(f"cannot {what} ledger {self.ledger_id}: {error}"))

    def _take(self, found: VersionedRecord | None) -> None:
        if found is None or found.identity != self.identity:
            raise NoSuchLedger(self.ledger_id)
        if found.version < self._version:
            return  # a watch may lag behind records that were read in the meantime
        self.record, self._version = found.record, found.version
        proven = found.record.confirmed_through
        self.last_add_confirmed = proven if self.is_closed else max(self.last_add_confirmed, proven)
        self.changed.set()
