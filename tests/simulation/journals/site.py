"""One run's clock, processes and chance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum
from heapq import heappop, heappush
from math import log
from typing import Any
from zlib import crc32

from tests.simulation.engine.chance import Stream, key_of, mixed
from tests.simulation.engine.world import Stuck

from .checks import Checks
from .plan import Plan

EVENTS_MAX = 6_000
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


class Site:
    """`is_calm`: nothing goes wrong any more."""

    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        self.plan = plan
        self.now = 0.0
        self.events = 0
        self.is_calm = False
        self.checks = Checks(plan.acceptors)
        self.probes: set[Enum] = set()
        self.trace: list[str] = []
        self.world = Host("world")
        self.hosts: dict[str, Host] = {}
        self._tracing = tracing
        self._heap: list[tuple[float, int, Host, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._chances: dict[str, Stream] = {}

    def host(self, name: str) -> Host:
        if name not in self.hosts:
            self.hosts[name] = Host(name)
        return self.hosts[name]

    def at(self, host: Host, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """`action` happens in this process after `delay`, if it lives that long."""
        self._scheduled += 1
        heappush(self._heap, (self.now + delay, self._scheduled, host, host.life, action, arguments))

    def chance(self, purpose: str) -> Stream:
        """The chance of one purpose, going on where it was."""
        found = self._chances.get(purpose)
        if found is None:
            found = self._chances[purpose] = Stream(key_of(self.plan.seed, purpose))
        return found

    def run(self) -> None:
        """Everything that is due, until nothing is. Raises Stuck for what never ends."""
        heap = self._heap
        while heap:
            entry = heappop(heap)
            time, _, host, life, action, arguments = entry
            if host.life != life:
                continue
            if time < host.paused_until:
                self._scheduled += 1
                heappush(heap, (host.paused_until, self._scheduled, host, life, action, arguments))
                continue
            self.now = time
            self.events += 1
            if self.events > EVENTS_MAX:
                raise Stuck(f"still busy after {EVENTS_MAX} events")
            action(*arguments)

    def note(self, what: str, *facts: object) -> None:
        """A line of the trace, which costs nothing where nobody looks."""
        if self._tracing:
            self.trace.append(f"{self.now:8.2f} {what % facts if facts else what}")

    def reached(self, probe: Enum) -> None:
        self.probes.add(probe)

    @property
    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


def exponential(bits: int) -> float:
    """A waiting time of mean 1."""
    return -log(1.0 - mixed(bits))


def numbered(key: int, number: int) -> int:
    """The chance of the nth of its kind, which depends on nothing else."""
    return crc32(number.to_bytes(4, "little"), key)


def salted(bits: int, salt: int) -> float:
    """Another number of [0, 1) from the same bits; `salt` is below 10."""
    return mixed(bits ^ _SALTS[salt])
