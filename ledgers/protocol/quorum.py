"""Quorum arithmetic: a single type for acks, fencing, "absent" verdicts and majorities."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """The result of a vote. If several quorums must all be won, LOST takes precedence over PENDING, and PENDING over
    WON."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Quorum:
    """`needed` of these voters must agree."""

    voters: tuple[int, ...]
    needed: int

    def __post_init__(self) -> None:
        assert 1 <= self.needed <= len(set(self.voters)) == len(self.voters)

    def outcome(self, yes: Collection[int], no: Collection[int] = ()) -> Outcome:
        """Returns WON if `needed` of the voters are in `yes`, LOST if so many are in `no` that this is no longer
        possible, and PENDING otherwise."""
        if sum(voter in yes for voter in self.voters) >= self.needed:
            return Outcome.WON
        can_still = sum(voter not in no for voter in self.voters)
        return Outcome.PENDING if can_still >= self.needed else Outcome.LOST

    def mark(self, marks: Mapping[int, int] | Sequence[int]) -> int:
        """Returns the highest mark that at least `needed` voters have reached, given each voter's mark."""
        return sorted(map(marks.__getitem__, self.voters))[-self.needed]


@dataclass(frozen=True, slots=True)
class EveryQuorum:
    """Several quorums, all of which must be won."""

    quorums: tuple[Quorum, ...]

    def outcome(self, yes: Collection[int], no: Collection[int] = ()) -> Outcome:
        return worst(quorum.outcome(yes, no) for quorum in self.quorums)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Returns LOST if any outcome is LOST, otherwise PENDING if any is PENDING, otherwise WON."""
    found = set(outcomes)
    if Outcome.LOST in found:
        return Outcome.LOST
    return Outcome.PENDING if Outcome.PENDING in found else Outcome.WON


def majority(voters: tuple[int, ...]) -> Quorum:
    """Returns a quorum of more than half of the voters."""
    return Quorum(voters, len(voters) // 2 + 1)
