"""Finds ledgers that were closed too early: a bookie's last-add-confirmed proves that entries past a ledger's end were
confirmed."""

from __future__ import annotations

from metadata.records.ledger_record import LedgerRecord

from ...storage.bookie import Bookie


def is_closed_early(bookie: Bookie, record: LedgerRecord) -> bool:
    """Returns whether this bookie can prove that an entry past the end of a closed ledger was confirmed.

    A recovery that used metadata restored from an older copy can cause this (rule W8). Entries whose loss an operator
    accepted explicitly (`LedgerRecord.accepted_loss`) do not count.
    """
    if record.last_entry is None or record.accepted_loss is not None or bookie.holds_another(record):
        return False
    proven = bookie.states.peek(record.ledger_id).last_add_confirmed
    return proven is not None and proven.last_entry > record.last_entry
