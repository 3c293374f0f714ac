"""Ledgers that no log needs: made by a writer that died before it added them, or given up by one that could not delete
them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from metadata.audit import Act, tell
from metadata.errors import NoSuchKey, VersionConflict
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.logs.log_ledgers import is_needed, segment_of, segments_at
from metadata.records.logs.log_record import LogRecord, Segment
from metadata.records.logs.log_store import LogStore
from metadata.store import MetadataStore

log = logging.getLogger(__name__)


class UnneededSegments:
    """Finds and deletes them in the course of one audit. Reads each log once, and each of its pages about once: ledgers
    of a log come in the order of its segments, as a rule."""

    def __init__(self, store: MetadataStore) -> None:
        self._ledgers = LedgerStore(store)
        self._logs = LogStore(store)
        self._known: dict[bytes, LogRecord | None] = {}
        self._pages: dict[bytes, Sequence[Segment]] = {}

    async def delete(self, found: VersionedRecord) -> bool:
        """Deletes the ledger if its log does not need it, and never will; whether it has. Raises MetadataError.

        Nothing in it was confirmed, or is left: a writer of an earlier epoch adds no segment. So it is not recovered.
        A ledger of a log that is not known stays, for whoever restores the metadata.
        """
        ledger_id, said = found.record.ledger_id, segment_of(found.record.custom_metadata)
        if said is None:
            return False
        of = await self._log(said.identity)
        if of is None or is_needed(of, ledger_id, said, await self._segments_at(of, said.first_position)):
            return False
        now = await self._logs.read(said.identity)
        if now is not None and now.record.legal_hold:
            return False  # it began since the log was read
        try:
            await self._ledgers.delete(found)
        except (VersionConflict, NoSuchKey):
            return False  # somebody changed it: the next audit looks again
        log.info(
            "ledger %d, which log %r does not need, is deleted",
            ledger_id,
            of.name,
            extra={"ledger": ledger_id},
        )
        tell(Act.DELETE, ledger_id=ledger_id, log=of.name)
        return True

    async def _segments_at(self, of: LogRecord, position: int) -> Sequence[Segment]:
        page = self._pages.get(of.identity, ())
        if not any(segment.holds(position) for segment in page):
            page = self._pages[of.identity] = await segments_at(self._logs, of, position)
        return page

    async def _log(self, identity: bytes) -> LogRecord | None:
        if identity not in self._known:
            found = await self._logs.read(identity)
            self._known[identity] = None if found is None else found.record
        return self._known[identity]
