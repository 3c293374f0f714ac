"""Many seeds on all cores, or one with its plan and its trace.

    python -m tests.simulation.engine.campaign --seeds 100000     fresh seeds; prints the first
    python -m tests.simulation.engine.campaign --seconds 60       as many as fit
    python -m tests.simulation.engine.campaign --seed 4711        one run, with everything that happened

A failing seed prints its plan, the smallest plan that still fails so, and how to repeat it. The last line is
`seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed, or if so many seeds never
took one of the rare paths of `probes`.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from tests.simulation.cores.cluster import Failed, run_seed
from tests.simulation.cores.plans.draw import draw
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.shrink import shrink

FIRST_SEED_MAX = 2**40
CHUNK_SEEDS = 50
CHUNKS_AHEAD = 2
SEEDS_THAT_REACH_EVERYTHING = 20_000
"""A campaign of at least so many seeds that has not taken some path of `Probe` has failed."""

FAILURES_SHOWN_MAX = 3
FAILURES_KEPT_MAX = 1_000
PROGRESS_SECONDS = 1.0
SEEDS_DEFAULT = 5_000


@dataclass(slots=True)
class Tally:
    """What some seeds led to."""

    seeds: int = 0
    events: int = 0
    failed: list[tuple[int, str]] = field(default_factory=list)
    probes: Counter[Probe] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.events += other.events
        self.failed = (self.failed + other.failed)[:FAILURES_KEPT_MAX]
        self.probes.update(other.probes)

    def unreached(self) -> list[Probe]:
        """The rare paths that were never taken, though there were seeds enough."""
        if self.seeds < SEEDS_THAT_REACH_EVERYTHING:
            return []
        return [probe for probe in Probe if not self.probes[probe]]


def run_chunk(seeds: range) -> Tally:
    """These seeds, one after the other."""
    tally = Tally(len(seeds))
    for seed in seeds:
        try:
            run = run_seed(seed, tracing=False)
        except Failed as failed:
            tally.failed.append((seed, f"{failed.__cause__!r}"))
        else:
            tally.events += run.events
            tally.probes.update(run.probes)
    return tally


def main() -> int:
    arguments = _parse()
    if arguments.seed is not None:
        return replay(arguments.seed)
    first = arguments.first_seed
    if first is None:
        first = int.from_bytes(os.urandom(8), "little") % FIRST_SEED_MAX
    return campaign(first, arguments.seeds, arguments.seconds, arguments.processes)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="campaign", description="Random schedules of faults against the protocol."
    )
    parser.add_argument("--seed", type=int, help="repeat one seed, and print its plan and its trace")
    parser.add_argument("--seeds", type=int, default=SEEDS_DEFAULT, help="how many seeds to run")
    parser.add_argument("--seconds", type=float, help="run for so long instead of a number of seeds")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores")
    return parser.parse_args()


def replay(seed: int) -> int:
    """One seed, in full."""
    print(draw(seed))
    try:
        run = run_seed(seed)
    except Failed as failed:
        print("\n".join(failed.trace))
        print(f"seed {seed}: {failed.__cause__!r}")
        _show_smallest(seed)
        return 1
    print("\n".join(run.trace))
    end = "not closed" if run.last_entry is None else f"closed at {run.last_entry}"
    print(f"seed {seed}: {run.events} events, {run.confirmed} confirmed, {end}, no violation")
    return 0


def campaign(first_seed: int, seeds: int, seconds: float | None, processes: int) -> int:
    """Runs and reports; the exit code."""
    limit = f"{seconds:g} seconds" if seconds else f"{seeds} seeds"
    print(f"== sim: {limit} from seed {first_seed} on {processes} processes", flush=True)
    began = time.monotonic()
    tally = _run_all(first_seed, seeds, seconds, processes)
    rate = tally.seeds / (time.monotonic() - began)
    for seed, why in tally.failed[:FAILURES_SHOWN_MAX]:
        print(f"seed {seed}: {why}\n{draw(seed)}")
        _show_smallest(seed)
    unreached = tally.unreached()
    for probe in unreached:
        print(f"never reached: {probe.value}")
    print(
        f"seeds={tally.seeds} violations={len(tally.failed)} seeds_per_second={rate:.0f} first_seed={first_seed}"
    )
    return 1 if tally.failed or unreached else 0


def _show_smallest(seed: int) -> None:
    print(f"the smallest plan that fails so:\n{shrink(draw(seed))}")
    print(f"repeat it with: make sim SEED={seed}", flush=True)


def _run_all(first_seed: int, seeds: int, seconds: float | None, processes: int) -> Tally:
    """Chunks of seeds in all processes, a few handed out ahead, until there are no more or the time is up."""
    began = said = time.monotonic()
    deadline = began + seconds if seconds else math.inf
    chunks = _chunks(first_seed, sys.maxsize - first_seed if seconds else seeds, deadline)
    tally = Tally()
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        running = {pool.submit(run_chunk, chunk) for chunk in islice(chunks, processes * CHUNKS_AHEAD)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for part in done:
                tally.add(part.result())
            running |= {pool.submit(run_chunk, chunk) for chunk in islice(chunks, len(done))}
            if (now := time.monotonic()) - said > PROGRESS_SECONDS:
                said = now
                rate = tally.seeds / (now - began)
                print(f"   {tally.seeds} seeds, {rate:.0f} a second", file=sys.stderr, flush=True)
    return tally


def _chunks(first_seed: int, seeds: int, deadline: float) -> Iterator[range]:
    for begin in range(first_seed, first_seed + seeds, CHUNK_SEEDS):
        if time.monotonic() >= deadline:
            return
        yield range(begin, min(begin + CHUNK_SEEDS, first_seed + seeds))


if __name__ == "__main__":
    sys.exit(main())
