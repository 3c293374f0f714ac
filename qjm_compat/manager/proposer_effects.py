"""Effects of the proposer's programs: calls to every acceptor, and the number of answers needed."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from ledgers.protocol.quorum import Outcome, Quorum, majority

from ..errors import QuorumFailed, QuorumTimeout
from ..requests import Request

T = TypeVar("T")


class Need(Enum):
    """How many acceptors must succeed."""

    MAJORITY = "majority"
    ALL = "all"

    def quorum(self, acceptors: int) -> Quorum:
        voters = tuple(range(acceptors))
        return majority(voters) if self is Need.MAJORITY else Quorum(voters, acceptors)


@dataclass(frozen=True, slots=True)
class CallAcceptors:
    """Calls every acceptor; the outcome is an Answers. Ends when the need is met or can no longer be met, or when time
    is up.

    `every_answer`: does not end until all have answered or time is up, so that the caller knows which calls succeeded.
    """

    what: str
    request: Request[Any]
    need: Need
    seconds_max: float
    every_answer: bool = False


@dataclass(frozen=True, slots=True)
class SetEpoch:
    """Sets the epoch of every channel, including those whose acceptors did not answer; the outcome is None."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """Replies and errors, keyed by the acceptors' numbers."""

    replies: Mapping[int, T] = field(default_factory=dict)
    errors: Mapping[int, Exception] = field(default_factory=dict)

    def outcome(self, need: Need, acceptors: int) -> Outcome:
        return need.quorum(acceptors).outcome(self.replies.keys(), self.errors.keys())


ProposerEffect: TypeAlias = CallAcceptors | SetEpoch
Program: TypeAlias = Generator[ProposerEffect, Any, T]


@dataclass(frozen=True, slots=True)
class Acceptors:
    """The names of a journal's acceptors. An acceptor's number is its index in `names`."""

    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def majority(self) -> Quorum:
        return Need.MAJORITY.quorum(len(self))

    def ask(
        self, what: str, request: Request[T], need: Need, seconds_max: float, *, every_answer: bool = False
    ) -> Program[Mapping[int, T]]:
        """Returns the replies that meet the need. Raises QuorumFailed or QuorumTimeout, with each acceptor's error."""
        answers: Answers[T] = yield CallAcceptors(what, request, need, seconds_max, every_answer)
        self.check(what, answers, need, seconds_max)
        return answers.replies

    def check(self, what: str, answers: Answers[Any], need: Need, seconds_max: float) -> None:
        """Raises QuorumFailed or QuorumTimeout unless the need is met."""
        outcome = answers.outcome(need, len(self))
        errors = {self.names[n]: error for n, error in sorted(answers.errors.items())}
        done = tuple(self.names[n] for n in sorted(answers.replies))
        if outcome is Outcome.LOST:
            raise QuorumFailed(what, need.quorum(len(self)).needed, len(self), errors, done)
        if outcome is Outcome.PENDING:
            heard = answers.replies.keys() | answers.errors.keys()
            silent = ", ".join(name for n, name in enumerate(self.names) if n not in heard)
            raise QuorumTimeout(what, seconds_max, silent, errors, done)
