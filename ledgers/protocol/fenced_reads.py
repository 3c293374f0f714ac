"""The verified copies of entries that fenced bookies return, and the conclusions that their answers allow about each
entry (R3, R6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from bookie.wire import NO_ENTRIES, Columns, EntryRange, ReadReply, Status, status_text

from ..integrity.digest import Digester
from .quorum import Outcome
from .striping import Striping

Copy = tuple[memoryview, memoryview]
"""Payload and digest of an entry."""


@dataclass(slots=True)
class Replica:
    """One bookie and its latest page: its copies of the entries from `asked_from` through `covered_through`.

    `reading`: the bookie has not answered yet. `failure`: why it is no longer asked. `unreadable`: entries whose copies
    are damaged, or for which the bookie cannot vouch.
    """

    name: str
    failure: str = ""
    asked_from: int = 0
    covered_through: int = -1
    reading: bool = False
    good: Columns = NO_ENTRIES
    entries: dict[int, Copy] = field(default_factory=dict)
    unreadable: list[EntryRange] = field(default_factory=list)
    why_unreadable: str = ""

    def answered(self, reply: ReadReply, digester: Digester) -> None:
        """Processes the requested page. Only OK and "no such ledger" prove anything about entries (R6)."""
        self.reading = False
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            self.failure = status_text(reply)
            return
        if reply.covered_through < self.asked_from:
            self.failure = "its page covers no entry"  # otherwise the bookie would be asked forever
            return
        columns, bad = reply.columns, set(digester.bad_entries(reply.columns))
        self.good = columns.pick([n for n in range(len(columns)) if n not in bad]) if bad else columns
        self.entries = {entry_id: (payload, digest) for entry_id, payload, digest in self.good.rows()}
        self.unreadable = [*reply.damaged, *(EntryRange(n, n) for n in (columns.ids[i] for i in bad))]
        self.covered_through, self.why_unreadable = reply.covered_through, reply.why_unreadable

    def failed(self, why: str) -> None:
        """Records that no attempt got an answer from the bookie."""
        self.reading, self.failure = False, why

    def covers(self, entry_id: int) -> bool:
        """Returns whether the bookie's latest page extends to this entry."""
        return entry_id <= self.covered_through

    def is_unreadable(self, entry_id: int) -> bool:
        return any(one.first_entry <= entry_id <= one.last_entry for one in self.unreadable)

    def lacks(self, entry_id: int) -> bool:
        """Returns whether the bookie has stated that it does not have the entry. Damage and silence do not count (F11,
        F12)."""
        return self.covers(entry_id) and entry_id not in self.entries and not self.is_unreadable(entry_id)

    def describe(self, entry_id: int) -> str:
        """Returns the bookie's answer about an entry for which it sent no copy."""
        if self.lacks(entry_id):
            return "has no such entry"
        return self.why_unreadable if self.covers(entry_id) else self.failure or "no answer yet"


class EntryVerdict(Enum):
    """The conclusion about an entry that the answers received so far permit."""

    OPEN = "more answers are needed"
    PRESENT = "a verified copy was read"
    ABSENT = "enough fenced bookies lack it to prove that it was never confirmed, and never will be"
    UNDECIDED = "every bookie of its write set has answered or failed, but it is neither present nor absent"


class FencedReads:
    """The answers of an ensemble's bookies, by position. The verdict on an entry depends only on the bookies in its
    write set."""

    def __init__(self, striping: Striping, names: Sequence[str], digester: Digester) -> None:
        self._striping = striping
        self._digester = digester
        self.replicas = [Replica(name) for name in names]

    def answered(self, position: int, reply: ReadReply) -> None:
        """Processes a page from the bookie at this position."""
        self.replicas[position].answered(reply, self._digester)

    def failed(self, position: int, why: str) -> None:
        """Records that no attempt got an answer from the bookie."""
        self.replicas[position].failed(why)

    def copy_of(self, entry_id: int) -> Copy | None:
        """Returns a verified copy of the entry; None if there is none."""
        copies = (replica.entries.get(entry_id) for replica in self._write_set(entry_id))
        return next((copy for copy in copies if copy is not None), None)

    def verdict(self, entry_id: int) -> EntryVerdict:
        if self.copy_of(entry_id) is not None:
            return EntryVerdict.PRESENT
        residue = entry_id % self._striping.shape.ensemble_size
        quorum = self._striping.absent_quorums[residue]
        lacking = [p for p in quorum.voters if self.replicas[p].lacks(entry_id)]
        if quorum.outcome(lacking) is Outcome.WON:
            return EntryVerdict.ABSENT
        is_heard = all(one.failure or one.covers(entry_id) for one in self._write_set(entry_id))
        return EntryVerdict.UNDECIDED if is_heard else EntryVerdict.OPEN

    def describe(self, entry_id: int) -> str:
        """Returns the answer of each bookie that may have the entry, for an error message."""
        return ", ".join(f"{one.name}: {one.describe(entry_id)}" for one in self._write_set(entry_id))

    def _write_set(self, entry_id: int) -> list[Replica]:
        return [self.replicas[position] for position in self._striping.write_set(entry_id)]
