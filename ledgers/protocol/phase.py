"""The phases of a writer, and the reasons why it ends: closed (rule C1), taken over by another client, or without a
quorum."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from metadata.records.ledger_record import LedgerRecord

from ..errors import LedgerFenced, NotEnoughBookies
from .ledger_effects import IN_ENSEMBLE


class Phase(Enum):
    """WRITING ⇄ CHANGING while writing; WRITING → CLOSING → ENDED on close; any phase → ENDED on failure."""

    WRITING = "writing"
    CHANGING = "an ensemble change is in flight"
    CLOSING = "the closing change is in flight"
    ENDED = "ended"


def is_closed_at(last_entry: int, found: LedgerRecord) -> bool:
    """Returns whether the ledger is closed at exactly this entry; if so, an attempt to close it there has succeeded."""
    return found.is_closed and found.last_entry == last_entry


def taken_over(found: LedgerRecord) -> LedgerFenced:
    """Returns the error for a writer whose ledger is being recovered by another client, or was closed by another client
    at a different entry."""
    how = f"recovered and closed at entry {found.last_entry}" if found.is_closed else "in recovery"
    return LedgerFenced(found.ledger_id, how)


def without_quorum(
    record: LedgerRecord, failures: Mapping[str, str], rejected: Mapping[str, str]
) -> NotEnoughBookies:
    """Returns the error for a writer without an ack quorum. It contains the failures of the ensemble's bookies, and the
    reasons why other bookies are not used.

    `rejected` is the result of the last search: a bookie that was healthy then may be in `failures` now.
    """
    needed = f"ledger {record.ledger_id} (ensemble/write/ack quorum {record.shape})"
    found = {name: why for name, why in rejected.items() if why != IN_ENSEMBLE or name not in failures}
    return NotEnoughBookies(needed, {**failures, **found})


def is_as_left(found: LedgerRecord, mine: LedgerRecord) -> bool:
    """Returns whether the last fragment of the stored record is still the one that the writer left there; earlier
    fragments may have been healed."""
    last, left = found.fragments[-1], mine.fragments[-1]
    return (last.first_entry, last.ensemble) == (left.first_entry, left.ensemble)


def changed_by_another(found: LedgerRecord) -> LedgerFenced:
    """Returns the error for a writer that finds that the last fragment is no longer its own: if the writer continued,
    entries would be confirmed, or the ledger closed, without the bookies that have the entries (rule W4)."""
    return LedgerFenced(
        found.ledger_id,
        "its last ensemble was changed by another client, or the metadata went back to an older copy of itself",
    )
