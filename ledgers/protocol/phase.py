"""The phases of a writer, and what ends it: closed (rule C1), taken over by another client, or without a quorum."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from metadata.records.ledger_record import LedgerRecord

from ..errors import LedgerFenced, NotEnoughBookies


class Phase(Enum):
    """WRITING ⇄ CHANGING while entries flow, WRITING → CLOSING → ENDED at the end, any → ENDED on failure."""

    WRITING = "writing"
    CHANGING = "an ensemble change is in flight"
    CLOSING = "the closing change is in flight"
    ENDED = "ended"


def is_closed_at(last_entry: int, found: LedgerRecord) -> bool:
    """Whether the ledger is closed at this very entry: then an attempt to close it there has succeeded."""
    return found.is_closed and found.last_entry == last_entry


def taken_over(found: LedgerRecord) -> LedgerFenced:
    """The error of a writer whose ledger others are recovering, or have closed elsewhere."""
    how = f"recovered and closed at entry {found.last_entry}" if found.is_closed else "in recovery"
    return LedgerFenced(found.ledger_id, how)


def without_quorum(record: LedgerRecord, unusable: Mapping[str, str]) -> NotEnoughBookies:
    """The error of a writer without an ack quorum; `unusable` says why each bookie is not used."""
    needed = f"ledger {record.ledger_id} (ensemble/write/ack quorum {record.shape})"
    return NotEnoughBookies(needed, unusable)
