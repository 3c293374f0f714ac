"""The simulated network: how long each message takes, whether it is lost, and whether it comes twice."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from zlib import crc32

from tests.simulation.cores.plans.plan import Cut, Figures, Rule
from tests.simulation.engine.chance import key_of, mixed
from tests.simulation.engine.world import World

LATE_SECONDS_MIN, LATE_SECONDS_MAX = 5.0, 60.0

_LOST, _SLOW, _LATE, _TWICE, _SECOND, _RULED = (0x9E3779B1 * n & 0xFFFFFFFF for n in range(1, 7))


@dataclass(slots=True)
class _Link:
    """Messages of one kind from one node to another, numbered; `rules` may apply to them."""

    key: int
    rules: tuple[tuple[int, Rule], ...]
    sent: int = 0


def _late(bits: int) -> float:
    return LATE_SECONDS_MIN + (LATE_SECONDS_MAX - LATE_SECONDS_MIN) * mixed(bits ^ _LATE)


class Network:
    """Decides each message by its link and its number on it. Lanes keep their own order."""

    def __init__(self, world: World, figures: Figures = Figures(), rules: tuple[Rule, ...] = ()) -> None:  # noqa: B008 — frozen
        self._world = world
        self._loss, self._slow, self._twice = figures.loss, figures.slow, figures.duplicate
        self._rules = tuple((key_of(0, repr(rule)), rule) for rule in rules)
        self._links: dict[tuple[str, str, str], _Link] = {}
        self._cut: dict[tuple[str, str], int] = {}
        self._held: dict[tuple[str, str], float] = {}

    def deliveries(self, kind: str, source: str, target: str) -> tuple[float, ...]:
        """Virtual seconds until the message arrives; none where it is lost, two where it arrives twice."""
        link = self._links.get((kind, source, target)) or self._new_link(kind, source, target)
        link.sent += 1
        bits = crc32(link.sent.to_bytes(4, "little"), link.key)
        delay = -log(1.0 - mixed(bits))
        if self._loss and mixed(bits ^ _LOST) < self._loss:
            return ()
        if self._slow and mixed(bits ^ _SLOW) < self._slow:
            delay += _late(bits)
        if link.rules:
            ruled = self._ruled(link, bits)
            if ruled is None:
                return ()
            delay += ruled
        if self._cut and (source, target) in self._cut:
            return ()
        if self._held:
            delay += max(0.0, self._held.get((source, target), 0.0) - self._world.now)
        if self._twice and mixed(bits ^ _TWICE) < self._twice:
            return (delay, delay - 10.0 * log(1.0 - mixed(bits ^ _SECOND)))
        return (delay,)

    def cut(self, cut: Cut) -> None:
        """The cut begins, and ends by itself."""
        links = [(source, target) for source in cut.sources for target in cut.targets]
        if cut.both_ways:
            links += [(target, source) for source, target in links]
        self._world.note("%s", cut)
        for link in links:
            if cut.holds:
                self._held[link] = max(self._held.get(link, 0.0), self._world.now + cut.seconds)
            else:
                self._cut[link] = self._cut.get(link, 0) + 1
        if not cut.holds:
            self._world.after(cut.seconds, lambda: self._mend(links))

    def calm(self) -> None:
        """No faults from here on."""
        self._loss = self._slow = self._twice = 0.0
        self._cut.clear()
        self._held.clear()
        self._rules = ()
        for link in self._links.values():
            link.rules = ()

    def _mend(self, links: list[tuple[str, str]]) -> None:
        for link in links:
            left = self._cut.pop(link, 0) - 1
            if left > 0:
                self._cut[link] = left

    def _new_link(self, kind: str, source: str, target: str) -> _Link:
        rules = tuple(
            (salt, rule)
            for salt, rule in self._rules
            if rule.kind == kind and rule.source in ("", source) and rule.target in ("", target)
        )
        link = _Link(key_of(self._world.seed, kind, source, target), rules)
        self._links[(kind, source, target)] = link
        return link

    def _ruled(self, link: _Link, bits: int) -> float | None:
        """Seconds more, by the rules; None where one of them has the message lost."""
        delay, now = 0.0, self._world.now
        for salt, rule in link.rules:
            applies = rule.at <= now < rule.at + rule.seconds
            if applies and mixed(bits ^ _RULED ^ salt) < rule.probability:
                if not rule.late:
                    return None
                delay += _late(bits)
        return delay
