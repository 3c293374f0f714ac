"""Reads one page of entries, from one replica after another, as a pure machine with speculative reads.

The page is a verified run of entries from `first_entry` on. A set of bookies that together hold every entry of the
range is asked at once (one bookie if the ledger is not striped). Their entries are verified and merged; the page is the
run without a gap that starts at the first entry. If the first entry is missing, its other replicas are asked for it,
until one returns it or all have answered.

If the bookies asked are silent for too long (`overdue`), other replicas are asked as well. The first verified answer
determines the page; a late answer is waited for only if no other replica is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bookie.wire import NO_ENTRIES, Columns, ReadReply, Status, merge, status_text
from metadata.records.ledger_record import Fragment

from ..errors import DigestMismatch, EntryUnreadable
from ..integrity.digest import Digester
from .striping import Striping


@dataclass(frozen=True, slots=True)
class ReadReplica:
    """Read these entries from this position's bookie."""

    position: int
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class PageDone:
    """The page: entries without a gap, beginning with the requested one. Later answers are ignored."""

    columns: Columns


@dataclass(frozen=True, slots=True)
class PageFailed:
    """No replica returned the first entry. `is_absent`: every replica answered that it does not have the entry."""

    error: EntryUnreadable
    is_absent: bool = False


PageEffect = ReadReplica | PageDone | PageFailed


class PageRead:
    """Reads one page of one fragment. `avoid` lists positions to ask last, because their bookies failed or were slow.

    Positions in `never` are not asked: the caller needs the page from other replicas.
    """

    def __init__(
        self,
        ledger_id: int,
        striping: Striping,
        fragment: Fragment,
        digester: Digester,
        first_entry: int,
        last_entry: int,
        *,
        avoid: Sequence[int] = (),
        never: Collection[int] = (),
        rotation: int = 0,
    ) -> None:
        self._ledger_id = ledger_id
        self._striping = striping
        self._names = [str(bookie) for bookie in fragment.ensemble]
        self._digester = digester
        self._first, self._last = first_entry, last_entry
        self._avoid = frozenset(avoid)
        self._rotation = rotation
        self._parts: list[Columns] = []
        self._unanswered = self._residues()
        self._outstanding: set[int] = set()
        self._late: set[int] = set()
        self._asked: set[int] = set(never)
        self._lacking: set[int] = set()
        self._answers: dict[str, str] = {}
        self._saw_bad_digest = False
        self._done = False

    @property
    def failures(self) -> Mapping[str, str]:
        """Failures by bookie."""
        return self._answers

    def start(self) -> list[PageEffect]:
        return self._ask_cover() or self._next_step()

    def answered(self, position: int, reply: ReadReply) -> list[PageEffect]:
        """Handles a page from a bookie."""
        if reply.status is not Status.OK:
            if reply.status is Status.NO_SUCH_LEDGER:
                self._lacking.add(position)
            return self.failed(position, status_text(reply))
        good = self._verified(position, reply.columns)
        if len(good):
            self._parts.append(good)
        if self._first <= reply.covered_through and (not len(good) or good.first_entry != self._first):
            self._explain(position, reply)
        self._unanswered -= self._held(position, self._unanswered)
        return self._settled(position)

    def failed(self, position: int, why: str) -> list[PageEffect]:
        """Handles a bookie that did not answer or that refused the request."""
        self._answers[self._names[position]] = why
        return self._settled(position)

    def overdue(self) -> list[PageEffect]:
        """Asks other bookies too, because those asked have been silent for too long, and stops waiting for the silent
        ones."""
        if self._done:
            return []
        self._late |= self._outstanding
        return self._ask_cover() or self._next_step()

    # --- choosing bookies ------------------------------------------------------------------------

    def _residues(self) -> set[int]:
        """Returns the write sets of the range's entries, as ids modulo ensemble size."""
        size = len(self._names)
        return {
            entry_id % size for entry_id in range(self._first, min(self._last, self._first + size - 1) + 1)
        }

    def _held(self, position: int, residues: Collection[int]) -> set[int]:
        return {residue for residue in residues if self._striping.holds(position, residue)}

    def _preference(self, positions: Sequence[int]) -> list[int]:
        size = len(self._names)
        return sorted(positions, key=lambda p: (p in self._avoid, (p - self._rotation) % size))

    def _untried(self, positions: Sequence[int]) -> list[int]:
        return [position for position in self._preference(positions) if position not in self._asked]

    def _ask_cover(self) -> list[PageEffect]:
        """Asks as few untried bookies as possible that together hold all entries still unanswered."""
        untried, missing = self._untried(range(len(self._names))), set(self._unanswered)
        asks: list[PageEffect] = []
        while useful := [position for position in untried if self._held(position, missing)]:
            best = max(useful, key=lambda p: (p not in self._avoid, len(self._held(p, missing))))
            untried.remove(best)
            missing -= self._held(best, missing)
            asks.append(self._ask(best, self._last))
        return asks

    def _ask_next_replica(self) -> list[PageEffect]:
        """Asks the next replica for the missing first entry, or ends when none is left."""
        replicas = self._striping.write_set(self._first)
        untried = self._untried(replicas)
        if untried:
            # An unstriped replica can serve the entire range; otherwise only the missing entry is fetched.
            last = self._first if self._striping.is_striped else self._last
            return [self._ask(untried[0], last)]
        if self._outstanding.intersection(replicas):
            return []  # a late bookie may still return the entry
        self._done = True
        kind = DigestMismatch if self._saw_bad_digest else EntryUnreadable
        error = kind(self._ledger_id, self._first, self._answers)
        return [PageFailed(error, is_absent=self._lacking.issuperset(replicas))]

    def _ask(self, position: int, last_entry: int) -> ReadReplica:
        self._outstanding.add(position)
        self._asked.add(position)
        return ReadReplica(position, self._first, last_entry)

    # --- answers -----------------------------------------------------------------------------------

    def _verified(self, position: int, columns: Columns) -> Columns:
        """Returns the entries with correct digests. Digests of a different width are wrong, and cannot be merged."""
        if not len(columns):
            return columns
        if columns.digest_width != self._digester.width_bytes:
            self._note_bad_digest(position, columns.first_entry)
            return NO_ENTRIES
        bad = self._digester.bad_entries(columns)
        if not bad:
            return columns
        self._note_bad_digest(position, columns.ids[bad[0]])
        unusable = frozenset(bad)
        return columns.pick([n for n in range(len(columns)) if n not in unusable])

    def _note_bad_digest(self, position: int, entry_id: int) -> None:
        self._saw_bad_digest = True
        self._answers[self._names[position]] = f"wrong digest on entry {entry_id}"

    def _explain(self, position: int, reply: ReadReply) -> None:
        if not self._striping.holds(position, self._first) or self._names[position] in self._answers:
            return
        if any(r.first_entry <= self._first <= r.last_entry for r in reply.damaged):
            self._answers[self._names[position]] = reply.why_unreadable
        else:
            self._lacking.add(position)
            self._answers[self._names[position]] = "has no such entry"

    def _settled(self, position: int) -> list[PageEffect]:
        self._outstanding.discard(position)
        return [] if self._done else self._next_step()

    def _next_step(self) -> list[PageEffect]:
        if self._awaits(self._unanswered):
            return []
        run = self._run()
        if len(run):
            self._done = True
            return [PageDone(run)]
        return [] if self._awaits((self._first,)) else self._ask_next_replica()

    def _awaits(self, residues: Collection[int]) -> bool:
        """Returns whether a bookie that is not late still owes an answer about one of these residues."""
        return any(self._held(position, residues) for position in self._outstanding - self._late)

    def _run(self) -> Columns:
        return merge(self._parts).between(self._first, self._last).run_from(self._first)
