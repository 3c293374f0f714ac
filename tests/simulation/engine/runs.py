"""What a run leads to: its story, or the promise that it broke."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from .world import Violation

TRACE_LINES_SHOWN = 60


class Run(Protocol):
    """What one plan led to; each layer's own says more."""

    @property
    def plan(self) -> Any: ...

    @property
    def trace(self) -> Sequence[str]:
        """What happened, line by line; empty for a run that was not traced."""
        ...

    @property
    def probes(self) -> Iterable[Enum]:
        """The rare paths that it took."""
        ...

    @property
    def end(self) -> str:
        """In a line."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of which there is no more to say."""

    plan: Any
    trace: tuple[str, ...] = ()
    probes: frozenset[Enum] = frozenset()
    end: str = "no violation"


class Failed(AssertionError):
    """A plan broke a promise, or the product fell over: `rule` says which. Failures of one rule are alike."""

    def __init__(self, plan: Any, why: BaseException, trace: Sequence[str]) -> None:
        super().__init__(repr(why))
        self.add_note("\n".join((repr(plan), *trace[-TRACE_LINES_SHOWN:])))
        self.plan = plan
        self.why = why
        self.is_violation = isinstance(why, Violation)
        self.rule = why.rule if isinstance(why, Violation) else type(why).__name__
        self.trace = tuple(trace)


def hash_of(trace: Iterable[str]) -> str:
    """The same for the same story."""
    return hashlib.sha256("\n".join(trace).encode()).hexdigest()
