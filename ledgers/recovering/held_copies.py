"""What bookies hold of a ledger, entry by entry, whatever its record proves: a pure machine.

It goes through the ids in order. Bookies are asked one after the other, from the entry that is wanted on, until one
gives a verified copy. Where none does, the entries up to the next one that anybody has are a gap, and it is told of
each bookie whether it has a copy that cannot be read, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bookie.wire import NO_ENTRIES, Columns, EntryRange, ReadReply, Status, status_text

from ..integrity.digest import Digester

ENTRY_ID_MAX = 2**62
"""No ledger has so many entries: who reads to it reads to the end."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries of which no bookie that answered gave a verified copy.

    `unreadable`: bookies whose copy is damaged, or that cannot vouch for what they have. `lacking`: bookies that say
    they have none.
    """

    first_entry: int
    last_entry: int
    unreadable: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def followed_by(self, other: Gap) -> Gap | None:
        """Both in one, where they meet and the same is said of them."""
        if self.last_entry + 1 != other.first_entry:
            return None
        if (self.unreadable, self.lacking) != (other.unreadable, other.lacking):
            return None
        return Gap(self.first_entry, other.last_entry, self.unreadable, self.lacking)


@dataclass(slots=True)
class CopyHolder:
    """One bookie, and its latest page: entries from `first_entry` through `covered_through`.

    `failure`: why it is not asked any more.
    """

    name: str
    failure: str = ""
    first_entry: int = 0
    covered_through: int = -1
    good: Columns = NO_ENTRIES
    damaged: list[EntryRange] = field(default_factory=list)

    def answered(self, first_entry: int, reply: ReadReply, digester: Digester) -> None:
        """The page that was asked for from this entry on."""
        if reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            self.failure = status_text(reply)
            return
        through = ENTRY_ID_MAX if reply.status is Status.NO_SUCH_LEDGER else reply.covered_through
        if through < first_entry:
            self.failure = "it gave a page that says nothing"  # asking again would never end
            return
        bad = set(digester.bad_entries(reply.columns))
        self.first_entry, self.covered_through = first_entry, through
        self.good = reply.columns.pick([n for n in range(len(reply.columns)) if n not in bad])
        self.damaged = [*reply.damaged, *(EntryRange(n, n) for n in (reply.columns.ids[i] for i in bad))]

    def covers(self, entry_id: int) -> bool:
        """Whether it has said all that it has to say of this entry."""
        return self.first_entry <= entry_id <= self.covered_through

    def run_from(self, entry_id: int, last_entry: int) -> Columns:
        """Its verified entries from this one on, to the first that is missing."""
        return self.good.between(entry_id, last_entry).run_from(entry_id)

    def next_after(self, entry_id: int, last_entry: int) -> int | None:
        """The next entry that it has, or may have behind its page; None where it has nothing more."""
        later = self.good.between(entry_id + 1, last_entry)
        if len(later):
            return later.first_entry
        return self.covered_through + 1 if self.covered_through < last_entry else None

    def is_unreadable(self, entry_id: int) -> bool:
        return any(one.first_entry <= entry_id <= one.last_entry for one in self.damaged)


@dataclass(frozen=True, slots=True)
class AskHolder:
    """Read a page of this holder from `first_entry` on; answer with `Holder.answered`, or set its `failure`."""

    holder: CopyHolder
    first_entry: int


SalvageStep = AskHolder | Columns | Gap | None


class HeldCopies:
    """Goes through the entries `first_entry` … `last_entry` that any of the holders has.

    `through`: what is missing up to this entry is a gap, also behind the last copy.
    """

    def __init__(
        self,
        holders: Sequence[CopyHolder],
        digester: Digester,
        *,
        through: int,
        first_entry: int = 0,
        last_entry: int = ENTRY_ID_MAX,
    ) -> None:
        self._holders = holders
        self.digester = digester
        self._next = first_entry
        self.last_entry = last_entry
        self._through = through

    def step(self) -> SalvageStep:
        """What is next: a question, a run of verified entries, a gap; None at the end."""
        if self._next > self.last_entry:
            return None
        for holder in self._living():
            if not holder.covers(self._next):
                return AskHolder(holder, self._next)
            found = holder.run_from(self._next, self.last_entry)
            if len(found):
                self._next = found.last_entry + 1
                return found
        return self._gap()

    @property
    def unsure(self) -> list[str]:
        """Bookies that cannot say where their entries end: what they had may be lost, or unreadable, to the last id."""
        return [one.name for one in self._living() if any(d.last_entry >= ENTRY_ID_MAX for d in one.damaged)]

    def _living(self) -> Iterator[CopyHolder]:
        return (holder for holder in self._holders if not holder.failure)

    def _gap(self) -> Gap | None:
        """Every holder has spoken of the next entry, and none has it."""
        later = [
            n for one in self._living() if (n := one.next_after(self._next, self.last_entry)) is not None
        ]
        end = min(later) - 1 if later else self._last_missing()
        if end < self._next:
            return None
        gap = self._same_of(end)
        self._next = gap.last_entry + 1
        return gap

    def _last_missing(self) -> int:
        """Where nobody has anything more: the last entry that was there, or should be."""
        ends = [d.last_entry for one in self._living() for d in one.damaged if d.last_entry < ENTRY_ID_MAX]
        return min(self.last_entry, max([self._through, *ends]))

    def _same_of(self, end: int) -> Gap:
        """From the next entry on, as far as of each holder the same is to be said."""
        first = self._next
        unreadable, lacking = list[str](), list[str]()
        for holder in self._living():
            (unreadable if holder.is_unreadable(first) else lacking).append(holder.name)
            for damage in holder.damaged:
                if damage.first_entry > first:
                    end = min(end, damage.first_entry - 1)
                elif damage.last_entry >= first:
                    end = min(end, damage.last_entry)
        return Gap(first, end, tuple(unreadable), tuple(lacking))
