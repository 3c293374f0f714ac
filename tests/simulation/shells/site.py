"""What every part of a run shares: the world's clock on the loop, the network, and how a message travels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeVar

from tests.simulation.cores.plans.plan import Cut, Figures, Rule
from tests.simulation.cores.site.network import Network
from tests.simulation.engine.loop import VirtualLoop
from tests.simulation.engine.world import Action, World

T = TypeVar("T")

CALM_PACE_SECONDS = 0.02
"""After the calm no message takes so long that a call would run out of time."""


class LoopWorld(World):
    """A world whose events are timers of the loop."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self._loop = loop
        self._due: list[tuple[float, int, Action]] = []
        super().__init__(seed)

    @property
    def now(self) -> float:
        return self._loop.time()

    @now.setter
    def now(self, _: float) -> None:
        """The loop alone moves the time."""

    def at(self, time: float, action: Action) -> None:
        # Timers of one moment may fire in any order: what fires says only that one more event is due.
        self.events += 1
        heappush(self._due, (time, self.events, action))
        self._loop.call_at(time, self._next)

    def _next(self) -> None:
        heappop(self._due)[2]()


class Site:
    """One run's clock, chance and network. `pace_seconds` is how long a message takes on average."""

    def __init__(self, seed: int, loop: VirtualLoop, pace_seconds: float) -> None:
        self.loop = loop
        self.world = LoopWorld(seed, loop)
        self.pace_seconds = pace_seconds
        self._network = Network(self.world)

    def expect_weather(self, figures: Figures, rules: tuple[Rule, ...]) -> None:
        """What is lost and late from here on."""
        self._network = Network(self.world, figures, rules)

    def calm(self) -> None:
        """No faults of the network from here on."""
        self._network.calm()
        self.pace_seconds = min(self.pace_seconds, CALM_PACE_SECONDS)

    def cut(self, cut: Cut) -> None:
        self._network.cut(cut)

    def delay(self, kind: str, source: str, target: str) -> float | None:
        """Virtual seconds until the message arrives; None when it never does."""
        deliveries = self._network.deliveries(kind, source, target)
        return deliveries[0] * self.pace_seconds if deliveries else None

    def happens(self, probability: float, *names: str) -> bool:
        return self.world.stream(*names).happens(probability)


def decide(answer: asyncio.Future[T], outcome: T | BaseException) -> None:
    """What has come of a call, an error or not; nobody waits for a second one."""
    if answer.done():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class Pipe:
    """One direction of a connection: in order, until a message is lost; from then on nothing arrives."""

    def __init__(self, site: Site, source: str, target: str, on_lost: Callable[[], None]) -> None:
        self._site = site
        self._ends = (source, target)
        self._on_lost = on_lost
        self._free_at = 0.0
        self._is_broken = False

    def send(self, kind: str, arrive: Action) -> None:
        delay = None if self._is_broken else self._site.delay(kind, *self._ends)
        if delay is not None:
            self._free_at = max(self._free_at, self._site.world.now + delay)
            self._site.world.at(self._free_at, arrive)
        elif not self._is_broken:
            self._is_broken = True
            self._on_lost()
