"""Plans moves of copies that even out disk usage. Pure: takes a placement, returns moves.

A bookie's usage is the size of its copies according to the metadata, as a share of its disk. Moves go from the most
used to the least used bookie, never to a worse placement among fault domains, and only if they reduce the difference
between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bookie.upkeep.healing.cluster_view import ClusterView
from metadata import placement
from metadata.healing.planned_moves import Move, Moves
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord

MOVES_MAX = 100_000
"""Maximum number of copies in one plan; a later plan moves more."""

TOLERANCE = 0.05
"""Differences in usage that are smaller than this share of the mean are ignored."""


@dataclass(slots=True)
class Plan:
    """The planned moves. `before` and `after` are the bytes placed on each bookie that takes part."""

    moves: list[Moves] = field(default_factory=list)
    copies: int = 0
    bytes: int = 0
    before: dict[BookieRef, int] = field(default_factory=dict)
    after: dict[BookieRef, int] = field(default_factory=dict)


class Balance:
    """Makes one plan, from the bytes `placed` on each bookie; considers only bookies that accept copies."""

    def __init__(self, view: ClusterView, placed: dict[BookieRef, int]) -> None:
        self._view = view
        takers = [one for one in view.takers() if one.disk_bytes_total > 0]
        self._capacity = {one.bookie: one.disk_bytes_total for one in takers}
        self._used = {bookie: placed.get(bookie, 0) for bookie in self._capacity}
        total = sum(self._capacity.values())
        self._mean = sum(self._used.values()) / total if total else 0.0
        self.plan = Plan(before=dict(self._used), after=self._used)

    def is_even(self) -> bool:
        """Returns whether no further move would help."""
        shares = list(map(self._share, self._used))
        return not shares or max(shares) - min(shares) <= self._mean * TOLERANCE

    def consider(self, record: LedgerRecord, amiss: Iterable[int]) -> None:
        """Plans moves of this ledger. `amiss`: first entries of the fragments that must be re-replicated before they
        can move."""
        part, skipped = record.closed_part(), set(amiss)
        found: list[Move] = []
        for fragment, size in () if part is None else part.copy_bytes():
            if fragment.first_entry not in skipped and size and self.plan.copies < MOVES_MAX:
                found += self._moves_of(fragment, size, record.shape.write_quorum)
        if found:
            self.plan.moves.append(Moves(record.ledger_id, tuple(found)))

    def _moves_of(self, fragment: Fragment, size: int, write_quorum: int) -> Iterator[Move]:
        """Yields at most one move, of one copy of a fragment."""
        known = [bookie for bookie in fragment.ensemble if bookie in self._used]
        for old in sorted(known, key=self._share, reverse=True):
            position = fragment.ensemble.index(old)
            beside = [
                fragment.ensemble[n]
                for n in placement.neighbours(position, len(fragment.ensemble), write_quorum)
            ]
            new = self._taker(fragment, old, size, beside)
            if new is not None:
                self._used[old] -= size
                self._used[new] += size
                self.plan.copies += 1
                self.plan.bytes += size
                yield Move(fragment.first_entry, old, new)
                return

    def _share(self, bookie: BookieRef, more_bytes: int = 0) -> float:
        return (self._used[bookie] + more_bytes) / self._capacity[bookie]

    def _taker(
        self, fragment: Fragment, old: BookieRef, size: int, others: Sequence[BookieRef]
    ) -> BookieRef | None:
        living = self._view.living
        beside = [living[one] for one in others if one in living]
        worst = placement.rank(living[old], beside)
        fit = [
            bookie
            for bookie in self._used
            if fragment.admits(bookie, in_place_of=old)
            and self._share(bookie, size) < self._share(old)
            and self._share(old) - self._share(bookie) > self._mean * TOLERANCE
            and placement.rank(living[bookie], beside) <= worst
        ]
        return min(fit, key=lambda bookie: (self._share(bookie), bookie), default=None)
