"""Simulated time, chance and network: one seed decides every delay, loss, cut and hold."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

Action = Callable[[], None]

EVENTS_MAX = 30_000
"""A run that needs more is a livelock."""

METADATA = "metadata"
MESSAGE_KINDS = ("add", "ack", "lac", "lac reply", "read", "read reply", "cas", "cas reply")


class Stuck(AssertionError):
    """The run did not come to an end."""


class World:
    """A heap of events, and all chance."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.events = 0
        self.trace: list[str] = []
        self._heap: list[tuple[float, int, Action]] = []
        self._scheduled = 0

    def after(self, delay: float, action: Action) -> None:
        self.at(self.now + delay, action)

    def at(self, time: float, action: Action) -> None:
        self._scheduled += 1
        heappush(self._heap, (time, self._scheduled, action))

    def note(self, what: str) -> None:
        self.trace.append(f"{self.now:9.3f} {what}")

    def happens(self, probability: float) -> bool:
        return self.rng.random() < probability

    def run(self) -> None:
        while self._heap:
            self.now, _, action = heappop(self._heap)
            self.events += 1
            if self.events > EVENTS_MAX:
                raise Stuck(f"still busy after {EVENTS_MAX} events")
            action()

    @property
    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Rule:
    """Messages of one kind to or from one node are lost, or held back for long."""

    kind: str
    node: str
    lost: bool
    probability: float


class Network:
    """How long a message takes, or that it is lost. Lanes keep their own order."""

    def __init__(self, world: World, nodes: list[str]) -> None:
        self._world = world
        rng = world.rng
        self._loss = rng.choice((0.0, 0.0, 0.02, 0.1))
        self._slow = rng.choice((0.0, 0.05, 0.2))
        self._cut: set[tuple[str, str]] = set()
        self._rules = [
            Rule(
                rng.choice(MESSAGE_KINDS), rng.choice(nodes), rng.random() < 0.5, rng.choice((0.3, 0.7, 1.0))
            )
            for _ in range(rng.choice((0, 1, 2, 4)))
        ]

    def cut(self, source: str, target: str, seconds: float) -> None:
        """One direction of one link is dead for a while."""
        self._world.note(f"cut {source}->{target}")
        self._cut.add((source, target))
        self._world.after(seconds, lambda: self._cut.discard((source, target)))

    def calm(self) -> None:
        """No faults from here on."""
        self._loss = self._slow = 0.0
        self._cut.clear()
        self._rules.clear()

    def delay(self, kind: str, source: str, target: str) -> float | None:
        """Seconds until the message arrives; None when it never does."""
        rng = self._world.rng
        delay = rng.expovariate(1.0)
        if (source, target) in self._cut or rng.random() < self._loss:
            return None
        for rule in self._rules:
            if rule.kind == kind and rule.node in (source, target) and rng.random() < rule.probability:
                if rule.lost:
                    return None
                delay += rng.uniform(5, 60)
        return delay + (rng.uniform(5, 60) if rng.random() < self._slow else 0.0)
