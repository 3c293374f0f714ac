"""The phases of a writer, and what ends it: closed (rule C1), taken over by another client, or without a quorum."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from metadata.records.ledger_record import LedgerRecord

from ..errors import LedgerFenced, NotEnoughBookies
from .effects import IN_ENSEMBLE


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


def without_quorum(
    record: LedgerRecord, failures: Mapping[str, str], rejected: Mapping[str, str]
) -> NotEnoughBookies:
    """The error of a writer without an ack quorum: what failed at bookies of its ensemble, and why others are not used.

    `rejected` is the result of the last search: a bookie that was fine then may be among the `failures` now.
    """
    needed = f"ledger {record.ledger_id} (ensemble/write/ack quorum {record.shape})"
    found = {name: why for name, why in rejected.items() if why != IN_ENSEMBLE or name not in failures}
    return NotEnoughBookies(needed, {**failures, **found})
