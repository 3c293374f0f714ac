"""Fences a ledger's last ensemble, and finds the last-add-confirmed that the ensemble's bookies report (rules R2 and
W8)."""

from __future__ import annotations

from bookie.wire import LacReply, LacStatement, Status, status_text
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..integrity.digest import Digester
from .quorum import Outcome
from .striping import Striping

UNVOUCHED = (
    "none of the ensemble's bookies that answer can vouch yet that the metadata has not gone back to an older copy of "
    "itself since the ledger was written. A bookie can do so soon after it starts, once all registered bookies have "
    "read the metadata: try again"
)

OLDER = (
    "bookie {} knows a later state of the ledger than the metadata, which went back to an older copy; nothing was "
    "closed. Compare and update the metadata: bookledger metadata check --accept"
)

BEHIND_A_FENCE = (Status.OK, Status.NO_SUCH_LEDGER)
"""Status codes of a bookie whose fence is durable and which vouches for its entries."""

EVER = 1
"""The first revision of a metadata store."""


def why_held_elsewhere(record: LedgerRecord) -> str:
    """Returns the error text for a ledger whose record names bookies holding entries that the record does not assign to
    them: why the ledger is not closed, and the remedy."""
    return (
        "bookies hold entries of the ledger that its record does not assign to them "
        f"({', '.join(map(str, record.also_at))}): "
        "the metadata is outdated, and nothing was closed. Once these bookies are back, `bookledger metadata check "
        "--accept` adds their notes to the metadata. If they have no note of the ledger, copy the remaining entries "
        f"(`bookledger ledger salvage {record.ledger_id}`), then accept the loss of the rest: `bookledger ledger "
        f"recover {record.ledger_id} --accept-loss`"
    )


class Fencing:
    """The answers to fencing reads of the last-add-confirmed, by position.

    `is_vouched_for`: a bookie has vouched that the metadata store has not gone back to an older state since the record
    was written. `why_older`: the explanation if a bookie's note of the ledger proves that the store has gone back to an
    older state; otherwise "".
    """

    def __init__(self, record: LedgerRecord, digester: Digester) -> None:
        self.ledger_id = record.ledger_id
        self.bookies: tuple[BookieRef, ...] = record.fragments[-1].ensemble
        self.last_add_confirmed: LacStatement | None = None
        self.is_vouched_for = False
        self.why_older = ""
        self._record = record
        self._coverage = Striping(record.shape).coverage
        self._digester = digester
        self._written_at = record.written_at or EVER
        self._fenced: set[int] = set()
        self._failed: dict[int, str] = {}

    @property
    def fenced(self) -> frozenset[BookieRef]:
        """The bookies that have answered."""
        return frozenset(self.bookies[n] for n in self._fenced)

    def is_to_be_asked_again(self, reply: LacReply) -> bool:
        """Returns whether the bookie is fenced but does not vouch for the metadata yet, although it may do so soon."""
        return reply.status in BEHIND_A_FENCE and not self.vouches(reply)

    def vouches(self, reply: LacReply) -> bool:
        """Returns whether this bookie vouches that the store has not gone back to an older state since the record was
        written."""
        return 0 < reply.vouched_since <= self._written_at

    def answered(self, position: int, reply: LacReply) -> None:
        """Processes a bookie's answer. A statement with a wrong digest is ignored, but the bookie still counts as
        fenced: the walk starts at the highest verified entry, and an earlier start is always safe."""
        if reply.status not in BEHIND_A_FENCE:
            self.failed(position, status_text(reply))
            return
        self._fenced.add(position)
        self.is_vouched_for |= self.vouches(reply)
        if reply.latest is not None and reply.latest.is_ahead_of(self._record):
            self.why_older = OLDER.format(self.bookies[position])
        lac, held = reply.last_add_confirmed, self.last_add_confirmed
        if lac is not None and self._digester.is_valid_lac(lac):
            self.last_add_confirmed = lac if held is None else max(lac, held)

    def failed(self, position: int, why: str) -> None:
        """Records that every attempt to fence the bookie failed."""
        self._failed[position] = why

    def outcome(self) -> Outcome:
        """Returns WON once the old writer can no longer get an ack quorum and, in addition, either one bookie vouches
        for the metadata, or all bookies have answered or failed and none vouches."""
        covered = self._coverage.outcome(self._fenced, self._failed)
        all_heard = len(self._fenced | self._failed.keys()) == len(self.bookies)
        is_open = not (self.is_vouched_for or all_heard)
        return Outcome.PENDING if covered is Outcome.WON and is_open else covered

    @property
    def why_lost(self) -> str:
        """Why the outcome is LOST."""
        said = ", ".join(f"{self.bookies[n]}: {why}" for n, why in sorted(self._failed.items()))
        return f"too few bookies could be fenced ({said})"
