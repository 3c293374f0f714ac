"""How a writer comes to its end, by others (rule C1) or for want of bookies."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.records.ledger_record import LedgerRecord

from ..errors import LedgerFenced, NotEnoughBookies


def is_closed_at(last_entry: int, found: LedgerRecord) -> bool:
    """Whether the ledger is closed at this very entry: then whoever wanted to close it there has succeeded."""
    return found.is_closed and found.last_entry == last_entry


def taken_over(found: LedgerRecord) -> LedgerFenced:
    """What ends the writer of a ledger that others recover, or have closed elsewhere."""
    how = f"recovered and closed at entry {found.last_entry}" if found.is_closed else "in recovery"
    return LedgerFenced(found.ledger_id, how)


def without_quorum(record: LedgerRecord, unusable: Mapping[str, str]) -> NotEnoughBookies:
    """What ends a writer whose entries no ack quorum takes; `unusable` says of each bookie why it is not used."""
    needed = f"ledger {record.ledger_id} (ensemble/write/ack quorum {record.shape})"
    return NotEnoughBookies(needed, unusable)
