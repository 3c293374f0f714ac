"""Finds the copies of a ledger that bookies hold, entry by entry, whatever the ledger's record proves. A pure machine.

It processes the ids in order. Bookies are asked one after the other, from the wanted entry on, until one returns a
verified copy. If none does, a gap begins, which ends before the next entry that any bookie has. The gap lists the
bookies whose copy cannot be read and those that have no copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bookie.wire import Columns

from ..protocol.fenced_reads import Replica

ENTRY_ID_MAX = 2**62
"""Higher than any entry id in a ledger: a reader that reads up to this id reads to the end."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries for which none of the bookies that answered returned a verified copy.

    `unreadable`: bookies whose copy is damaged, or that cannot vouch for their entries. `lacking`: bookies that answer
    that they do not have the entries.
    """

    first_entry: int
    last_entry: int
    unreadable: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    def followed_by(self, other: Gap) -> Gap | None:
        """Returns both gaps as one if they are adjacent and list the same bookies, otherwise None."""
        if self.last_entry + 1 != other.first_entry:
            return None
        if (self.unreadable, self.lacking) != (other.unreadable, other.lacking):
            return None
        return Gap(self.first_entry, other.last_entry, self.unreadable, self.lacking)


class HeldCopies:
    """Goes through the entries from `first_entry` to `last_entry` that at least one of these bookies has.

    `through`: missing entries up to this one are a gap, even after the last copy.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        *,
        through: int,
        first_entry: int = 0,
        last_entry: int = ENTRY_ID_MAX,
    ) -> None:
        self._replicas = replicas
        self._next = first_entry
        self.last_entry = last_entry
        self._through = through

    def step(self) -> Replica | Columns | Gap | None:
        """Returns the next step: a bookie to be asked for a page, a run of verified entries, or a gap; None at the
        end."""
        if self._next > self.last_entry:
            return None
        for replica in self._living():
            if not replica.covers(self._next):
                replica.asked_from = self._next
                return replica
            found = replica.good.between(self._next, self.last_entry).run_from(self._next)
            if len(found):
                self._next = found.last_entry + 1
                return found
        return self._gap()

    @property
    def unsure(self) -> list[str]:
        """Bookies that cannot tell where their entries end: any entries up to the last possible id may be lost or
        unreadable."""
        return [
            one.name for one in self._living() if any(d.last_entry >= ENTRY_ID_MAX for d in one.unreadable)
        ]

    def _living(self) -> Iterator[Replica]:
        return (replica for replica in self._replicas if not replica.failure)

    def _gap(self) -> Gap | None:
        """Returns the next gap; called when every bookie has answered about the next entry and none has it."""
        later = [n for one in self._living() if (n := self._next_of(one)) is not None]
        end = min(later) - 1 if later else self._last_missing()
        if end < self._next:
            return None
        gap = self._same_of(end)
        self._next = gap.last_entry + 1
        return gap

    def _next_of(self, replica: Replica) -> int | None:
        """Returns the next entry that the bookie has, or may have beyond its page; None if it has no more."""
        later = replica.good.between(self._next + 1, self.last_entry)
        if len(later):
            return later.first_entry
        return replica.covered_through + 1 if replica.covered_through < self.last_entry else None

    def _last_missing(self) -> int:
        """Returns the last entry that existed or should exist; called when no bookie has further entries."""
        ends = [d.last_entry for one in self._living() for d in one.unreadable if d.last_entry < ENTRY_ID_MAX]
        return min(self.last_entry, max([self._through, *ends]))

    def _same_of(self, end: int) -> Gap:
        """Returns the gap that begins at the next entry and ends before the first entry for which a bookie's answer
        differs."""
        first = self._next
        unreadable, lacking = list[str](), list[str]()
        for replica in self._living():
            (unreadable if replica.is_unreadable(first) else lacking).append(replica.name)
            for damage in replica.unreadable:
                if damage.first_entry > first:
                    end = min(end, damage.first_entry - 1)
                elif damage.last_entry >= first:
                    end = min(end, damage.last_entry)
        return Gap(first, end, tuple(unreadable), tuple(lacking))
