"""One run's clock, processes and chance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any
from zlib import crc32

from tests.simulation.engine.chance import mixed
from tests.simulation.engine.world import Action, World

from .checks import Checks
from .plan import Plan

EVENTS_MAX = 8_000
"""A run that needs more is a livelock."""

_SALTS = tuple(0x9E3779B1 * n & 0xFFFFFFFF for n in range(10))


class Host:
    """A process: what is due in it does not happen once it has died, and waits while it stands still."""

    __slots__ = ("died", "is_up", "life", "name", "paused_until")

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = 0
        self.is_up = True
        self.paused_until = 0.0
        self.died: list[Callable[[], None]] = []

    def crash(self) -> None:
        """What was due here never happens; those who talk to it are told."""
        self.life += 1
        self.is_up = False
        told, self.died = self.died, []
        for tell in told:
            tell()


class Site(World):
    """The events of all processes. `is_calm`: nothing goes wrong any more."""

    events_max = EVENTS_MAX

    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        super().__init__(plan.seed, tracing=tracing)
        self.plan = plan
        self.is_calm = False
        self.checks = Checks(plan.acceptors)
        self.outside = Host("world")
        self.hosts: dict[str, Host] = {}

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(name)
        return self.hosts[name]

    def within(self, host: Host, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """`action` happens in this process after `delay`, if it lives that long."""
        self.after(delay, partial(self._happen, host, host.life, partial(action, *arguments)))

    def _happen(self, host: Host, life: int, action: Action) -> None:
        if host.life != life:
            return
        if self.now < host.paused_until:
            self.at(host.paused_until, partial(self._happen, host, life, action))
        else:
            action()


def exponential(bits: int) -> float:
    """A waiting time of mean 1."""
    return -log(1.0 - mixed(bits))


def numbered(key: int, number: int) -> int:
    """The chance of the nth of its kind, which depends on nothing else."""
    return crc32(number.to_bytes(4, "little"), key)


def salted(bits: int, salt: int) -> float:
    """Another number of [0, 1) from the same bits; `salt` is below 10."""
    return mixed(bits ^ _SALTS[salt])
