"""Many seeds of a layer on all cores, or one with its plan and its trace.

    python -m tests.simulation cores --seeds 100000     fresh seeds; prints the first
    python -m tests.simulation cores --seconds 60       as many as fit
    python -m tests.simulation cores --seed 4711        one run, with everything that happened
    python -m tests.simulation cores --rates --seeds 3000     how many seeds find each planted bug

A failing seed prints its plan, the smallest plan that still fails so, and how to repeat it. The last line is
`seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed, or if so many seeds never
took one of the rare paths of the layer.
"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from multiprocessing import cpu_count, get_context
from typing import Any

from .layer import Layer
from .rates import show_rates
from .runs import Failed

FIRST_SEED_MAX = 10**9
CHUNK_SEEDS = 10
CHUNKS_AHEAD = 4
FAILURES_SHOWN_MAX = 3
FAILURES_KEPT_MAX = 1_000
PROGRESS_SECONDS = 2.0
WHY_CHARACTERS_MAX = 300


@dataclass(slots=True)
class Tally:
    """What some seeds led to."""

    seeds: int = 0
    failed: list[tuple[int, str]] = field(default_factory=list)
    probes: Counter[Enum] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.failed = (self.failed + other.failed)[:FAILURES_KEPT_MAX]
        self.probes.update(other.probes)

    def unreached(self, layer: Layer[Any]) -> list[Enum]:
        """The rare paths that were never taken, though there were seeds enough."""
        if self.seeds < layer.seeds_that_reach_everything:
            return []
        return [probe for probe in layer.probes if not self.probes[probe]]


def main(layer: Layer[Any], given: list[str]) -> int:
    """Does what the command line says; the exit code."""
    arguments = _parse(layer, given)
    if arguments.rates:
        show_rates(layer, arguments.seeds or layer.seeds_default, arguments.only, arguments.processes)
        return 0
    if arguments.seed is not None:
        return replay(layer, arguments.seed)
    first = secrets.randbelow(FIRST_SEED_MAX) if arguments.first_seed is None else arguments.first_seed
    return campaign(layer, first, arguments.seeds, arguments.seconds, arguments.processes)


def _parse(layer: Layer[Any], given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m tests.simulation {layer.name}", description=layer.what)
    parser.add_argument("--seed", type=int, help="repeat one seed, and print its plan and its trace")
    parser.add_argument("--seeds", type=int, help=f"how many seeds to run (default {layer.seeds_default})")
    parser.add_argument("--seconds", type=float, help="run for so long instead of a number of seeds")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    parser.add_argument("--processes", type=int, default=cpu_count(), help="default: all cores")
    parser.add_argument("--rates", action="store_true", help="how many seeds from 0 on find each planted bug")
    parser.add_argument("--only", default="", help="with --rates: part of a bug's name")
    return parser.parse_args(given)


def replay(layer: Layer[Any], seed: int) -> int:
    """One seed, in full."""
    began, violations = time.monotonic(), 0
    print(layer.draw(seed))
    try:
        run = layer.run(seed, tracing=True)
    except Failed as failed:
        violations = 1
        print("\n".join(failed.trace))
        print(f"seed {seed}: {failed.why!r}")
        _show_smallest(layer, seed)
    else:
        print("\n".join(run.trace))
        print(f"seed {seed}: {run.end}")
    _say_last(1, violations, time.monotonic() - began, seed)
    return violations


def campaign(
    layer: Layer[Any], first_seed: int, seeds: int | None, seconds: float | None, processes: int
) -> int:
    """Runs and reports; the exit code."""
    seeds = seeds or (sys.maxsize - first_seed if seconds else layer.seeds_default)
    limit = f"{seconds:g} seconds" if seconds else f"{seeds} seeds"
    print(f"== {layer.name}: {limit} from seed {first_seed} on {processes} processes", flush=True)
    began = time.monotonic()
    tally = _run_all(layer, _chunks(first_seed, seeds, began + (seconds or math.inf)), processes)
    took = time.monotonic() - began
    for seed, why in tally.failed[:FAILURES_SHOWN_MAX]:
        print(f"seed {seed}: {why}\n{layer.draw(seed)}")
        _show_smallest(layer, seed)
    unreached = tally.unreached(layer)
    for probe in unreached:
        print(f"never reached: {probe.value}")
    _say_last(tally.seeds, len(tally.failed), took, first_seed)
    return 1 if tally.failed or unreached else 0


def _show_smallest(layer: Layer[Any], seed: int) -> None:
    if layer.simpler:
        print(f"the smallest plan that fails so:\n{layer.shrink(layer.draw(seed))}")
    print(f"repeat it with: make sim LAYER={layer.name} SEED={seed}", flush=True)


def _say_last(seeds: int, violations: int, seconds: float, first_seed: int) -> None:
    rate = seeds / max(seconds, 1e-9)
    print(f"seeds={seeds} violations={violations} seeds_per_second={rate:.0f} first_seed={first_seed}")


# --- on all cores -------------------------------------------------------------------------------

_LAYERS: list[Layer[Any]] = []
"""What the children run: they inherit it, for a layer's functions do not travel."""


def run_chunk(seeds: range) -> Tally:
    """These seeds, one after the other."""
    (layer,) = _LAYERS
    tally = Tally(len(seeds))
    for seed in seeds:
        try:
            tally.probes.update(layer.run(seed).probes)
        except Failed as failed:
            tally.failed.append((seed, repr(failed.why)))
    return tally


def _run_all(layer: Layer[Any], chunks: Iterator[range], processes: int) -> Tally:
    """Chunks of seeds in all processes, a few handed out ahead, until there are no more."""
    began = said = time.monotonic()
    tally = Tally()
    _LAYERS[:] = [layer]
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        running = {pool.submit(run_chunk, chunk) for chunk in islice(chunks, processes * CHUNKS_AHEAD)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for part in done:
                tally.add(part.result())
                _say_failed(part.result())
            running |= {pool.submit(run_chunk, chunk) for chunk in islice(chunks, len(done))}
            if (now := time.monotonic()) - said > PROGRESS_SECONDS:
                said = now
                rate = tally.seeds / (now - began)
                print(
                    f"   {tally.seeds} seeds, {len(tally.failed)} failed, {rate:.0f} a second",
                    file=sys.stderr,
                    flush=True,
                )
    return tally


def _say_failed(part: Tally) -> None:
    """At once, so that one can look into the first failure of a long campaign while the rest runs."""
    for seed, why in part.failed:
        print(f"   seed {seed} failed: {why[:WHY_CHARACTERS_MAX]}", file=sys.stderr, flush=True)


def _chunks(first_seed: int, seeds: int, deadline: float) -> Iterator[range]:
    for begin in range(first_seed, first_seed + seeds, CHUNK_SEEDS):
        if time.monotonic() >= deadline:
            return
        yield range(begin, min(begin + CHUNK_SEEDS, first_seed + seeds))
