"""A process of the simulated cluster: a pause holds back what reaches it, and its death loses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.simulation.cores.probes import Probe
from tests.simulation.engine.world import Action, World

T = TypeVar("T")


class Node:
    """A client or a bookie. `up` is whether it lives."""

    woken_from_pause = Probe.CLIENT_PAUSED

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.up = True
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Stands still for so long; time goes on outside."""
        self.world.note("%s pauses", self.name)
        self._paused_until = max(self._paused_until, self.world.now + seconds)

    def wake(self) -> None:
        """The pause is over."""
        self._paused_until = 0.0

    def hears(self, then: Callable[[T], None]) -> Callable[[T], None]:
        """What an answer reaches this process by."""
        return lambda answer: self.deliver(lambda: then(answer))

    def deliver(self, event: Action) -> None:
        """Something reaches this process: now, after its pause, or never."""
        if not self.up:
            return
        if self.world.now < self._paused_until:
            self.world.reached(self.woken_from_pause)
            self.world.at(self._paused_until, lambda: self.deliver(event))
        else:
            event()
