"""Reading one page of confirmed entries, from one replica after another, as a pure machine.

The page is a verified run of entries from `first_entry` on. Bookies that together hold every entry
of the range are asked at once (one bookie where the ledger is not striped); what they give is
verified and merged, and the run without a gap from the first entry is the page. When the first
entry itself is missing, its other replicas are asked for it, until one has it or all have answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookie.wire import NO_ENTRIES, Columns, ReadReply, Status, merge
from metadata.ledger_record import Fragment

from .digest import Digester
from .errors import DigestMismatch, EntryUnreadable
from .striping import Striping


@dataclass(frozen=True, slots=True)
class Ask:
    """Read these entries from this position's bookie."""

    position: int
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class PageDone:
    """The page: entries without a gap from the one asked for."""

    columns: Columns


@dataclass(frozen=True, slots=True)
class PageFailed:
    """No replica has the first entry."""

    error: EntryUnreadable


PageEffect = Ask | PageDone | PageFailed


class PageRead:
    """One page of one fragment. `avoid` lists positions to ask last: their bookies failed lately."""

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
        self._outstanding: set[int] = set()
        self._asked: set[int] = set()
        self._answers: dict[str, str] = {}
        self._saw_bad_digest = False
        self._done = False

    @property
    def failures(self) -> Mapping[str, str]:
        """What went wrong at which bookie."""
        return self._answers

    def start(self) -> list[PageEffect]:
        return [self._ask(position, self._last) for position in self._cover()]

    def answered(self, position: int, reply: ReadReply) -> list[PageEffect]:
        """A bookie gave a page."""
        if reply.status is not Status.OK:
            return self.failed(position, f"{reply.status}{': ' + reply.detail if reply.detail else ''}")
        good = self._verified(position, reply.columns)
        if len(good):
            self._parts.append(good)
        if self._first <= reply.covered_through and (not len(good) or good.first_entry != self._first):
            self._explain(position, reply)
        return self._settled(position)

    def failed(self, position: int, why: str) -> list[PageEffect]:
        """A bookie did not answer, or refused."""
        self._answers[self._names[position]] = why
        return self._settled(position)

    # ------------------------------------------------------------------------------------------

    def _preference(self, positions: Sequence[int]) -> list[int]:
        size = len(self._names)
        return sorted(positions, key=lambda p: (p in self._avoid, (p - self._rotation) % size))

    def _cover(self) -> list[int]:
        """Few positions that hold every entry of the range between them."""
        size = len(self._names)
        needed = {
            entry_id % size for entry_id in range(self._first, min(self._last, self._first + size - 1) + 1)
        }
        chosen: list[int] = []
        for position in self._preference(range(size)):
            gained = {residue for residue in needed if self._striping.holds(position, residue)}
            if gained:
                chosen.append(position)
                needed -= gained
        return chosen

    def _ask(self, position: int, last_entry: int) -> Ask:
        self._outstanding.add(position)
        self._asked.add(position)
        return Ask(position, self._first, last_entry)

    def _verified(self, position: int, columns: Columns) -> Columns:
        bad = self._digester.bad_entries(columns)
        if not bad:
            return columns
        self._saw_bad_digest = True
        self._answers[self._names[position]] = f"wrong digest on entry {columns.ids[bad[0]]}"
        unusable = frozenset(bad)
        return columns.pick([n for n in range(len(columns)) if n not in unusable])

    def _explain(self, position: int, reply: ReadReply) -> None:
        if not self._striping.holds(position, self._first):
            return
        damaged = any(r.first_entry <= self._first <= r.last_entry for r in reply.damaged)
        self._answers.setdefault(
            self._names[position], "its copy is damaged" if damaged else "has no such entry"
        )

    def _settled(self, position: int) -> list[PageEffect]:
        self._outstanding.discard(position)
        if self._done or self._outstanding:
            return []
        run = self._run()
        if len(run):
            self._done = True
            return [PageDone(run)]
        return self._ask_next()

    def _run(self) -> Columns:
        found = merge(self._parts).between(self._first, self._last) if self._parts else NO_ENTRIES
        if not len(found) or found.first_entry != self._first:
            return NO_ENTRIES
        if found.last_entry - found.first_entry == len(found) - 1:
            return found
        ids = found.ids
        return found.cut(0, next(n for n in range(len(found)) if ids[n] != self._first + n))

    def _ask_next(self) -> list[PageEffect]:
        replicas = self._preference(self._striping.write_set(self._first))
        untried = [position for position in replicas if position not in self._asked]
        if untried:
            # An unstriped replica can serve the whole range; elsewhere only the missing entry is fetched.
            last = self._first if self._striping.is_striped else self._last
            return [self._ask(untried[0], last)]
        self._done = True
        kind = DigestMismatch if self._saw_bad_digest else EntryUnreadable
        return [PageFailed(kind(self._ledger_id, self._first, self._answers))]
