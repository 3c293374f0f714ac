"""Finds ledgers that were closed too early: before entries of which a bookie has the writer's last-add-confirmed."""

from __future__ import annotations

from metadata.records.ledger_record import LedgerRecord

from ...storage.bookie import Bookie


def is_cut_short(bookie: Bookie, record: LedgerRecord) -> bool:
    """Whether this bookie proves an entry past the end of a closed ledger to be confirmed.

    A recovery over metadata that had gone back to an older copy can have done that (rule W8). What an operator gave up
    by an explicit word (`LedgerRecord.accepted_loss`) does not count.
    """
    if record.last_entry is None or record.accepted_loss is not None or bookie.holds_another(record):
        return False
    proven = bookie.states.peek(record.ledger_id).last_add_confirmed
    return proven is not None and proven.last_entry > record.last_entry
