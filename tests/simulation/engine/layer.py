"""A layer: who acts, what of the product is real, what may go wrong, what is checked. The engine does the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from .planted import Plant
from .runs import Failed, Run
from .shrink import RUNS_MAX, Simpler, shrunk

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Layer(Generic[P]):
    """`draw` makes a plan of a seed. `play(plan, tracing)` runs it, or raises Failed.

    `simpler` are ways to make a plan simpler, for one that failed. After `seeds_that_reach_everything` seeds each of
    `probes` was taken, or the campaign has failed. `plants` must be found; with `counts_errors` also by a run that only
    falls over.
    """

    name: str
    what: str
    draw: Callable[[int], P]
    play: Callable[[P, bool], Run]
    simpler: tuple[Simpler[P], ...] = ()
    plants: tuple[Plant, ...] = ()
    probes: tuple[Enum, ...] = ()
    seeds_that_reach_everything: int = 0
    seeds_default: int = 1000
    counts_errors: bool = True

    def run(self, seed: int, tracing: bool = False) -> Run:
        """The plan of this seed, run. Raises Failed."""
        return self.play(self.draw(seed), tracing)

    def rule_broken_by(self, plan: P) -> str | None:
        """The rule that a run of the plan breaks, if any."""
        try:
            self.play(plan, False)
        except Failed as failed:
            return failed.rule
        return None

    def shrink(self, plan: P, *, runs_max: int = RUNS_MAX) -> P:
        """A small plan that breaks the same rule as this one. Raises ValueError where this one breaks none."""
        return shrunk(plan, self.rule_broken_by, self.simpler, runs_max)

    def finds(self, seed: int) -> bool:
        """Whether this seed finds what is planted now."""
        try:
            self.run(seed)
        except Failed as failed:
            return failed.is_violation or self.counts_errors
        return False

    def failing_seeds(self, plant: Plant) -> Iterator[int]:
        """The seeds that find what is planted now."""
        return filter(self.finds, range(plant.within))
