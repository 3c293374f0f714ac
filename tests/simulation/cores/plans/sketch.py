"""A plan in the making, and the ground of every plan: the cluster, who writes, recovers and reads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import plan as plans
from .plan import Plan

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 2), (5, 3, 3), (2, 2, 1), (4, 2, 2), (3, 3, 3))
BOOKIES_MAX = 7
RECOVERERS_MAX = 3


@dataclass(slots=True)
class Sketch:
    """A plan in the making."""

    rng: random.Random
    seed: int
    shape: tuple[int, int, int] = (3, 3, 2)
    bookies: int = 3
    deferred_sync: bool = False
    delay_ensemble_change: bool = False
    absent: tuple[int, ...] = ()
    figures: plans.Figures = field(default_factory=plans.Figures)
    recoverers: int = 1
    tails: int = 0
    rules: list[plans.Rule] = field(default_factory=list)
    operations: list[plans.Operation] = field(default_factory=list)
    faults: list[plans.Fault] = field(default_factory=list)

    def plan(self) -> Plan:
        return Plan(
            self.seed,
            self.shape,
            self.bookies,
            self.deferred_sync,
            self.delay_ensemble_change,
            self.absent,
            self.figures,
            tuple(self.rules),
            tuple(sorted(self.operations, key=lambda operation: operation.at)),
            tuple(sorted(self.faults, key=lambda fault: fault.at)),
        )

    # --- drawing --------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def time(self, low: float, high: float) -> float:
        return round(self.rng.uniform(low, high), 1)

    def some(self, *counts: int) -> range:
        return range(self.rng.choice(counts))

    def bookie(self) -> str:
        return f"b{self.rng.randrange(self.bookies)}"

    def recoverer(self) -> str:
        return f"r{self.rng.randrange(self.recoverers)}"

    def client(self) -> str:
        return self.rng.choice(self.clients)

    @property
    def clients(self) -> list[str]:
        readers = [f"t{n}" for n in range(self.tails)]
        return [plans.WRITER, *(f"r{n}" for n in range(self.recoverers)), *readers]

    @property
    def bookie_names(self) -> list[str]:
        return [f"b{n}" for n in range(self.bookies)]


def ground(sketch: Sketch, shapes: Sequence[tuple[int, int, int]] = SHAPES, spare: int | None = None) -> None:
    rng = sketch.rng
    sketch.shape = rng.choice(shapes)
    size = sketch.shape[0]
    most = max(size, BOOKIES_MAX)
    sketch.bookies = min(most, size + (rng.choice((0, 1, 1, 2, 3, 4)) if spare is None else spare))
    sketch.recoverers = rng.choice((1, 1, 2, 3))
    sketch.deferred_sync = sketch.chance(0.12)
    sketch.delay_ensemble_change = sketch.chance(0.15)
    sketch.figures = plans.Figures(
        loss=rng.choice((0.0, 0.0, 0.02, 0.1)),
        slow=rng.choice((0.0, 0.05, 0.2)),
        duplicate=rng.choice((0.0, 0.0, 0.05)),
        sync_seconds=rng.choice((0.5, 2.0, 5.0)),
        patience_seconds=rng.choice((15.0, 100.0)),
        dead_replacements=rng.choice((0.0, 0.1)),
    )


def writing(sketch: Sketch, begin: float = 0.0, end: float = 60.0) -> None:
    if sketch.chance(0.12) and not sketch.deferred_sync:
        return writing_as(sketch, begin, end)
    for _ in range(sketch.rng.randint(1, 6)):
        sizes = tuple(sketch.rng.randint(1, 6) for _ in range(sketch.rng.randint(1, 3)))
        sketch.operations.append(plans.Append(sketch.time(begin, end), sizes))
    if sketch.deferred_sync:
        sketch.operations += [plans.Force(sketch.time(begin, end + 30)) for _ in sketch.some(1, 2)]
    if sketch.chance(0.25):
        sketch.operations.append(plans.TellLac(sketch.time(end, end + 60)))
    if sketch.chance(0.4):
        sketch.operations.append(plans.Close(sketch.time(begin + 20, end + 60)))
    return None


def writing_as(sketch: Sketch, begin: float, end: float) -> None:
    """An advanced writer: ids in any order, and perhaps one that never comes."""
    ids = list(range(sketch.rng.randint(2, 8)))
    sketch.rng.shuffle(ids)
    if sketch.chance(0.3):
        ids.pop()
    sketch.operations += [plans.AppendAs(sketch.time(begin, end), n, sketch.rng.randint(1, 6)) for n in ids]
    if sketch.chance(0.5):
        sketch.operations.append(plans.Close(sketch.time(begin + 20, end + 60)))


def recovering(sketch: Sketch, begin: float = 15.0, end: float = 150.0) -> None:
    for n in range(sketch.recoverers):
        sketch.operations.append(plans.Recover(sketch.time(begin, end), f"r{n}"))


def reading(sketch: Sketch, tails: float = 0.2, readers: float = 0.2, gaps: float = 0.3) -> None:
    if sketch.chance(tails):
        sketch.tails = sketch.rng.choice((1, 1, 1, 2))
        sketch.operations += [plans.Tail(sketch.time(0, 60), f"t{n}") for n in range(sketch.tails)]
        if sketch.chance(gaps):
            sketch.faults.append(plans.WatchGap(sketch.time(0, 100), seconds=sketch.time(20, 120)))
    if sketch.chance(readers):
        rotation = sketch.rng.randrange(sketch.shape[0])
        sketch.operations.append(plans.Read(sketch.time(0, 200), rotation=rotation))
