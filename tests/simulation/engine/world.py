"""Simulated time: a heap of events, and the chance that belongs to the seed."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from heapq import heappop, heappush

from .chance import Stream, key_of

Action = Callable[[], None]

EVENTS_MAX = 30_000
"""A run that needs more is a livelock."""


class Violation(AssertionError):
    """A promise was broken; `rule` says which, and two violations are alike when theirs is the same."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class Stuck(Violation):
    """The run did not come to its end."""

    def __init__(self, what: str) -> None:
        super().__init__("liveness", what)


class World:
    """One run's clock, events, chance, trace and probes. `now` is in virtual seconds."""

    events_max = EVENTS_MAX

    def __init__(self, seed: int, *, tracing: bool = True) -> None:
        self.seed = seed
        self.now = 0.0
        self.events = 0
        self.trace: list[str] = []
        self.probes: set[Enum] = set()
        self._tracing = tracing
        self._heap: list[tuple[float, int, Action]] = []
        self._scheduled = 0
        self._streams: dict[tuple[str, ...], Stream] = {}

    def at(self, time: float, action: Action) -> None:
        """`action` happens at this time; what is put to the same time happens in the order it was put."""
        self._scheduled += 1
        heappush(self._heap, (time, self._scheduled, action))

    def after(self, delay: float, action: Action) -> None:
        self.at(self.now + delay, action)

    def note(self, what: str, *details: object) -> None:
        """A line of the trace: `what` with its %s filled in, which costs nothing where nobody looks."""
        if self._tracing:
            self.trace.append(f"{self.now:9.3f} {what % details if details else what}")

    def reached(self, probe: Enum) -> None:
        """A rare path was taken."""
        self.probes.add(probe)

    def stream(self, *names: str) -> Stream:
        """The chance that is drawn for this purpose, going on where it was."""
        found = self._streams.get(names)
        if found is None:
            found = self._streams[names] = Stream(key_of(self.seed, *names))
        return found

    def run(self) -> None:
        """Everything that is to happen, until nothing is left. Raises Stuck for what never ends."""
        heap = self._heap
        while heap:
            self.now, _, action = heappop(heap)
            self.events += 1
            if self.events > self.events_max:
                raise Stuck(f"still busy after {self.events_max} events")
            action()
