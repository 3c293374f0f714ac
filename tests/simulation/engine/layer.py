"""The command line of a layer that runs seed after seed in one process: many fresh seeds, or one in full.

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

FIRST_SEED_MAX = 10**9
PROGRESS_SECONDS = 2.0
FAILURES_SHOWN_MAX = 5


class Broken(Exception):
    """A seed broke a promise: what to print of it, and how it came to it where that was asked for."""

    def __init__(self, what: str, story: Iterable[str] = ()) -> None:
        super().__init__(what)
        self.story = tuple(story)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed led to: its plan, its trace, a last line, and the rare paths it took."""

    story: tuple[str, ...]
    probes: frozenset[Enum] = frozenset()


@dataclass(frozen=True, slots=True)
class Layer:
    """`run(seed, tracing)` raises Broken. After `seeds_that_reach_everything` seeds every one of `probes` was
    taken, or the campaign has failed. `smallest` tells the smallest plan that fails as this seed does."""

    name: str
    what: str
    run: Callable[[int, bool], Outcome]
    seeds_default: int = 1000
    probes: tuple[Enum, ...] = ()
    seeds_that_reach_everything: int = 0
    smallest: Callable[[int], str] | None = None


def main(layer: Layer) -> int:
    """Does what the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.simulation.{layer.name}", description=layer.what)
    parser.add_argument("--seed", type=int, help="repeat one seed and print its plan and trace")
    parser.add_argument(
        "--seeds", type=int, help=f"how many fresh seeds to run (default {layer.seeds_default})"
    )
    parser.add_argument("--seconds", type=float, help="run fresh seeds for so long")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return replay(layer, arguments.seed)
    first = secrets.randbelow(FIRST_SEED_MAX) if arguments.first_seed is None else arguments.first_seed
    has_limit = arguments.seeds is not None or arguments.seconds is not None
    return campaign(layer, first, arguments.seeds if has_limit else layer.seeds_default, arguments.seconds)


def replay(layer: Layer, seed: int) -> int:
    """One run, told line by line."""
    violations, began = 0, time.monotonic()
    try:
        story: tuple[str, ...] = layer.run(seed, True).story
    except Broken as broken:
        violations, story = 1, (*broken.story, str(broken))
    print("\n".join(story))
    if violations and layer.smallest is not None:
        print(f"the smallest plan that fails so:\n{layer.smallest(seed)}")
    _say_last(1, violations, time.monotonic() - began, seed)
    return violations


def campaign(layer: Layer, first_seed: int, seeds_max: int | None, seconds: float | None) -> int:
    """Seeds from the first on, until so many are done or so much time is up."""
    print(f"== {layer.name}: seeds from {first_seed}", flush=True)
    began = said = time.monotonic()
    seeds = violations = 0
    probes: Counter[Enum] = Counter()
    while (seeds_max is None or seeds < seeds_max) and (
        seconds is None or time.monotonic() < began + seconds
    ):
        try:
            probes.update(layer.run(first_seed + seeds, False).probes)
        except Broken as broken:
            violations += 1
            if violations <= FAILURES_SHOWN_MAX:
                _say_broken(layer, first_seed + seeds, broken)
        seeds += 1
        if (now := time.monotonic()) - said > PROGRESS_SECONDS:
            said = now
            print(f"   {seeds} seeds, {seeds / (now - began):.0f} a second", file=sys.stderr, flush=True)
    unreached = (
        [] if seeds < layer.seeds_that_reach_everything else [p for p in layer.probes if not probes[p]]
    )
    for probe in unreached:
        print(f"never reached: {probe.value}")
    _say_last(seeds, violations, time.monotonic() - began, first_seed)
    return 1 if violations or unreached else 0


def _say_broken(layer: Layer, seed: int, broken: Broken) -> None:
    again = f"python -m tests.simulation.{layer.name} --seed {seed}"
    print(f"seed {seed}: {broken}; repeat it with: {again}", flush=True)


def _say_last(seeds: int, violations: int, seconds: float, first_seed: int) -> None:
    rate = seeds / max(seconds, 1e-9)
    print(f"seeds={seeds} violations={violations} seeds_per_second={rate:.0f} first_seed={first_seed}")
