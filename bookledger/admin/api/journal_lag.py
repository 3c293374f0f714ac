"""Computes an acceptor's lag in time: since the first segment that it lacks was finalized at another acceptor."""

from __future__ import annotations

import time
from typing import NamedTuple

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.journal_record import JournalState, decode_finalized
from metadata.records.ledger_store import LedgerStore
from metadata.records.unreadable import readable, skip
from metadata.store import MetadataStore


class Ahead(NamedTuple):
    """An acceptor that has all finalized segments."""

    journal_id: str
    acceptor: str
    state: JournalState


async def lag_millis(store: MetadataStore, ahead: Ahead, last_txid: int) -> int | None:
    """How long an acceptor that has everything through `last_txid` has lacked the next transaction; None if no record
    has the time.

    The time is by the clock of the process that closed the segment's ledger, and by ours.
    """
    ledger_id = await _ledger_after(store, ahead, last_txid)
    if ledger_id is None:
        return None
    try:
        found = await LedgerStore(store).read(ledger_id)
    except BadRecord as error:
        skip(error)
        return None
    if found is None or not found.record.closed_ms:
        return None
    return max(0, time.time_ns() // 1_000_000 - found.record.closed_ms)


async def _ledger_after(store: MetadataStore, ahead: Ahead, last_txid: int) -> int | None:
    """The ledger of the first finalized segment after this transaction."""
    state = ahead.state
    ledgers = {
        one.start_txid: one.ledger_id
        for one in state.segments
        if one.finalized and one.start_txid > last_txid
    }
    prefix = keys.journal_segments(ahead.journal_id, ahead.acceptor)
    after = keys.journal_segment(ahead.journal_id, ahead.acceptor, last_txid)
    for item in (await store.list_page(prefix, after=after, limit=1)).items:
        record = readable(decode_finalized, item.key, item.value)
        if record is not None and state.shows(record):
            ledgers[record.start_txid] = record.ledger_id
    return ledgers[min(ledgers)] if ledgers else None
