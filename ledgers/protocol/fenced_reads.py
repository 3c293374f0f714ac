"""Collects bookies' answers to fenced reads, and decides whether an entry exists (rules R3, R6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from bookie.wire import EntryRange, ReadReply, Status, status_text

from ..integrity.digest import Digester
from .quorum import Outcome
from .striping import Striping


class Verdict(Enum):
    """What the answers so far prove about an entry."""

    OPEN = "more answers are needed"
    PRESENT = "a verified copy was read"
    ABSENT = "so many fenced bookies lack it that it was never confirmed, and never will be"
    UNDECIDED = "every bookie of its write set has answered or failed, and neither holds"


@dataclass(slots=True)
class Replica:
    """One bookie's answers, complete for ids through `covered_through`."""

    name: str
    covered_through: int
    reading: bool = False
    asked_from: int = 0
    failure: str = ""
    entries: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    unreadable: list[EntryRange] = field(default_factory=list)

    def lacks(self, entry_id: int) -> bool:
        """Whether a fenced bookie explicitly has no such entry. Damage and silence do not count (F11, F12)."""
        return (
            entry_id <= self.covered_through
            and entry_id not in self.entries
            and not any(r.first_entry <= entry_id <= r.last_entry for r in self.unreadable)
        )

    def is_done_with(self, entry_id: int) -> bool:
        return bool(self.failure) or entry_id <= self.covered_through

    def describe(self, entry_id: int) -> str:
        if self.lacks(entry_id):
            return "has no such entry"
        if entry_id <= self.covered_through:
            return "its copy is damaged"
        return self.failure or "no answer yet"


class FencedReads:
    """Collects the answers of an ensemble's bookies from `first_entry` on."""

    def __init__(
        self, striping: Striping, names: tuple[str, ...], first_entry: int, digester: Digester
    ) -> None:
        self._striping = striping
        self._digester = digester
        self.replicas = [Replica(name, first_entry - 1) for name in names]

    def answered(self, position: int, reply: ReadReply) -> None:
        """Takes a page. Only OK and "no such ledger" say anything about entries (R6)."""
        replica = self.replicas[position]
        replica.reading = False
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            replica.failure = status_text(reply)
            return
        if reply.covered_through < replica.asked_from:
            replica.failure = "it gave a page that says nothing"  # asking again would never end
            return
        bad = set(self._digester.bad_entries(reply.columns))
        for index, (entry_id, payload, digest) in enumerate(reply.columns.rows()):
            if index in bad:
                replica.unreadable.append(EntryRange(entry_id, entry_id))
            else:
                replica.entries[entry_id] = (bytes(payload), bytes(digest))
        replica.unreadable.extend(reply.damaged)
        replica.covered_through = max(replica.covered_through, reply.covered_through)

    def failed(self, position: int, why: str) -> None:
        """Records that the bookie did not answer, after all tries."""
        self.replicas[position].reading = False
        self.replicas[position].failure = why

    def copy_of(self, entry_id: int) -> tuple[bytes, bytes] | None:
        """(payload, digest) of a verified copy, if any."""
        for position in self._striping.write_set(entry_id):
            copy = self.replicas[position].entries.get(entry_id)
            if copy is not None:
                return copy
        return None

    def verdict(self, entry_id: int) -> Verdict:
        """Decided by the write set alone."""
        if self.copy_of(entry_id) is not None:
            return Verdict.PRESENT
        residue = entry_id % self._striping.shape.ensemble_size
        quorum = self._striping.absent_quorums[residue]
        lacking = [p for p in quorum.voters if self.replicas[p].lacks(entry_id)]
        if quorum.outcome(lacking) is Outcome.WON:
            return Verdict.ABSENT
        is_heard = all(self.replicas[p].is_done_with(entry_id) for p in quorum.voters)
        return Verdict.UNDECIDED if is_heard else Verdict.OPEN

    def describe(self, entry_id: int) -> str:
        """What each bookie that may have the entry said, for an error message."""
        members = [self.replicas[p] for p in self._striping.write_set(entry_id)]
        return ", ".join(f"{replica.name}: {replica.describe(entry_id)}" for replica in members)

    def forget_before(self, entry_id: int) -> None:
        """Drops the answers about entries before this one, which are decided."""
        for replica in self.replicas:
            replica.covered_through = max(replica.covered_through, entry_id - 1)
            for decided in [known for known in replica.entries if known < entry_id]:
                del replica.entries[decided]
            replica.unreadable = [r for r in replica.unreadable if r.last_entry >= entry_id]
