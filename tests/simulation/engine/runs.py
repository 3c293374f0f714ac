"""What a run leads to: its story, or the promise that it broke."""

from __future__ import annotations

import gc
import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def warnings_are(problems: list[str]) -> Iterator[None]:
    """Warnings, as of a coroutine that nobody awaited, are problems. No garbage is collected in between."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        problems.extend(str(warning.message) for warning in caught)
    finally:
        if was_enabled:
            gc.enable()
