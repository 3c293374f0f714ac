"""Checks whether a recovery has already closed the ledger that a fenced writer wants to close (rule C1)."""

from __future__ import annotations

import logging

from metadata.errors import MetadataError
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore

from ..protocol.phase import is_closed_at

log = logging.getLogger(__name__)


async def closed_by_others(
    ledgers: LedgerStore, record: LedgerRecord, last_entry: int
) -> LedgerRecord | None:
    """The ledger's record if it is closed at exactly this entry; None if not, or if that is unknown."""
    try:
        found = await ledgers.read_again(record)
    except MetadataError as unknown:
        log.info(
            "ledger %d: it is unknown whether a recovery has closed it: %s",
            record.ledger_id,
            unknown,
            extra={"ledger": record.ledger_id},
        )
        return None
    return found.record if found is not None and is_closed_at(last_entry, found.record) else None
