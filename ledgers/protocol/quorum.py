"""Quorum arithmetic: one type for acks, fencing, "absent" verdicts and majorities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """LOST beats PENDING beats WON when several quorums must all be won."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Quorum:
    """`needed` of these voters must say yes."""

    voters: tuple[int, ...]
    needed: int

    def __post_init__(self) -> None:
        assert 1 <= self.needed <= len(set(self.voters)) == len(self.voters)

    def outcome(self, yes: Collection[int], no: Collection[int] = ()) -> Outcome:
        """WON with `needed` of the voters in `yes`; LOST when too many of them are in `no` for that."""
        if sum(voter in yes for voter in self.voters) >= self.needed:
            return Outcome.WON
        can_still = sum(voter not in no for voter in self.voters)
        return Outcome.PENDING if can_still >= self.needed else Outcome.LOST

    def mark(self, marks: Mapping[int, int] | Sequence[int]) -> int:
        """The highest mark that `needed` voters have reached, given each voter's mark."""
        return sorted(map(marks.__getitem__, self.voters))[-self.needed]


@dataclass(frozen=True, slots=True)
class EveryQuorum:
    """Several quorums, all of which must be won."""

    quorums: tuple[Quorum, ...]

    def outcome(self, yes: Collection[int], no: Collection[int] = ()) -> Outcome:
        return worst(quorum.outcome(yes, no) for quorum in self.quorums)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """LOST if any is, else PENDING if any is, else WON."""
    found = set(outcomes)
    if Outcome.LOST in found:
        return Outcome.LOST
    return Outcome.PENDING if Outcome.PENDING in found else Outcome.WON


def majority(voters: tuple[int, ...]) -> Quorum:
    """More than half of the voters."""
    return Quorum(voters, len(voters) // 2 + 1)
