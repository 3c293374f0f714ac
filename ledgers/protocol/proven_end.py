"""What any bookie proves of a ledger's end, for the record may be older than the ledger (rule W8)."""

from __future__ import annotations

from bookie.wire import NO_ENTRY, LacReply, LacStatement, Status
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..integrity.digest import Digester

HOLDS_SOMETHING = (Status.OK, Status.UNKNOWN)
"""Answers of a bookie that has entries of a ledger, or may have."""


class ProvenEnd:
    """The highest last-add-confirmed with a right digest that any bookie has told, at any time, and who told it."""

    def __init__(self, digester: Digester) -> None:
        self._digester = digester
        self.last_entry = NO_ENTRY
        self.proven_by: BookieRef | None = None

    def hear(self, bookie: BookieRef, statement: LacStatement | None) -> int:
        """Takes a bookie's statement; returns the entry that it proves to be confirmed, NO_ENTRY for none."""
        if statement is None or not self._digester.is_valid_lac(statement):
            return NO_ENTRY
        if statement.last_entry > self.last_entry:
            self.last_entry, self.proven_by = statement.last_entry, bookie
        return statement.last_entry

    def why_not_at(self, ledger_id: int, last_entry: int) -> str:
        """Why a recovery does not close the ledger at an entry before this one, and what can be done."""
        return (
            f"bookie {self.proven_by} proves that entry {self.last_entry} was confirmed, and no bookie that answers "
            f"has entry {last_entry + 1}: the metadata is older than the ledger, and nothing was closed. See "
            "`bookledger metadata check`; bring the bookies back that are away, or newer metadata; or copy what there "
            f"is (`bookledger ledger salvage {ledger_id}`), and give up the rest: `bookledger ledger recover "
            f"{ledger_id} --accept-loss`"
        )


def may_be_read(record: LedgerRecord, reply: LacReply) -> bool:
    """Whether a bookie outside the last ensemble that answers this has, or may have, entries of the ledger.

    Of a ledger without an identity nobody can tell: it may be another ledger of that id.
    """
    return bool(record.identity) and reply.status in HOLDS_SOMETHING


def outdates(record: LedgerRecord, proven: int) -> bool:
    """Whether the record is older than the ledger, where a bookie outside its last ensemble proves this entry.

    Whoever left before the last fragment began knows of no confirmed entry in it (rule W4).
    """
    return proven >= record.fragments[-1].first_entry
