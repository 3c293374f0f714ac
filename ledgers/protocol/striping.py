"""Striping: which positions of an ensemble hold an entry, and the quorums that result (rules W1, R2, R3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from metadata.records.ledger_record import Shape

from .quorum import EveryQuorum, Quorum


@dataclass(frozen=True)
class Striping:
    """Entry i is stored at positions (i mod E) … (i+Qw−1 mod E). There are only E distinct write sets."""

    shape: Shape

    @cached_property
    def write_sets(self) -> tuple[tuple[int, ...], ...]:
        """The write set of each residue i mod E."""
        size = self.shape.ensemble_size
        return tuple(
            tuple((first + step) % size for step in range(self.shape.write_quorum)) for first in range(size)
        )

    def write_set(self, entry_id: int) -> tuple[int, ...]:
        return self.write_sets[entry_id % self.shape.ensemble_size]

    @cached_property
    def is_striped(self) -> bool:
        """Whether there is a position that does not hold every entry."""
        return self.shape.ensemble_size > self.shape.write_quorum

    def holds(self, position: int, entry_id: int) -> bool:
        """Returns whether the entry belongs at this position."""
        return (position - entry_id) % self.shape.ensemble_size < self.shape.write_quorum

    def held_between(self, position: int, first_entry: int, last_entry: int) -> tuple[int, int] | None:
        """Returns the first and last entry of this range that belong at the position; None if no entry does."""
        size = self.shape.ensemble_size
        first = next(
            (i for i in range(first_entry, first_entry + size) if self.holds(position, i)), last_entry + 1
        )
        last = next((i for i in range(last_entry, last_entry - size, -1) if self.holds(position, i)), -1)
        return (first, last) if first <= last else None

    def held_by_none_but(self, positions: Collection[int], first_entry: int, last_entry: int) -> int:
        """Returns the number of entries of this range that belong at these positions and at no other."""
        size, count = self.shape.ensemble_size, max(0, last_entry - first_entry + 1)
        residues = [n for n, members in enumerate(self.write_sets) if set(members) <= set(positions)]
        return sum((count - (n - first_entry) % size + size - 1) // size for n in residues)

    @cached_property
    def ack_quorums(self) -> tuple[Quorum, ...]:
        """One quorum per residue: Qa bookies of the write set confirm an entry."""
        return tuple(Quorum(voters, self.shape.ack_quorum) for voters in self.write_sets)

    @cached_property
    def absent_quorums(self) -> tuple[Quorum, ...]:
        """One quorum per residue: Qw−Qa+1 bookies of the write set that lack an entry prove that it was never
        confirmed."""
        needed = self.shape.write_quorum - self.shape.ack_quorum + 1
        return tuple(Quorum(voters, needed) for voters in self.write_sets)

    @cached_property
    def coverage(self) -> EveryQuorum:
        """Fencing is complete when, in every write set, enough bookies have answered that no ack quorum is left (rule
        R2)."""
        return EveryQuorum(self.absent_quorums)

    def confirmed_through(self, acked_through: Mapping[int, int] | Sequence[int], last_pushed: int) -> int:
        """Returns the last entry such that this entry and each one before it have an ack quorum.

        `acked_through[position]`: the entry up to which that position has acknowledged every entry it holds.
        """
        if not self.is_striped:  # the same voters decide about every entry
            return min(last_pushed, self.ack_quorums[0].mark(acked_through))
        size = self.shape.ensemble_size
        first_open = last_pushed + 1
        for residue, quorum in enumerate(self.ack_quorums):
            beyond = quorum.mark(acked_through) + 1
            first_open = min(first_open, beyond + (residue - beyond) % size)
        return first_open - 1
