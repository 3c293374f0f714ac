"""Many seeds of upkeep, or one with its plan and its trace.

    python -m tests.simulation.upkeep --seeds 5000      fresh seeds; prints the first, and how to repeat a failure
    python -m tests.simulation.upkeep --seconds 60      as many fresh seeds as fit
    python -m tests.simulation.upkeep --seed 4711       one seed: its plan, its trace, and how small it fails

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed, or if so
many seeds never took one of the rare paths of `probes`.
"""

from __future__ import annotations

import sys

from tests.simulation.engine.layer import Broken, Layer, Outcome, main

from .draw import draw
from .probes import UpkeepProbe
from .run import Failed, run_upkeep_seed
from .shrink import shrink

SEEDS_THAT_REACH_EVERYTHING = 2_000
"""A campaign of at least so many seeds that has not taken some path of `UpkeepProbe` has failed."""


def run(seed: int, tracing: bool) -> Outcome:
    """One seed. Raises Broken."""
    try:
        done = run_upkeep_seed(seed, tracing=tracing)
    except Failed as failed:
        raise Broken(str(failed.__cause__), (repr(failed.plan), *failed.trace)) from failed
    end = f"{done.lives} lives, {done.operations} changes of the disk: no violation"
    return Outcome((repr(done.plan), *done.trace, end), done.probes)


LAYER = Layer(
    "upkeep",
    "Random schedules of faults against a bookie that is kept in order.",
    run,
    probes=tuple(UpkeepProbe),
    seeds_that_reach_everything=SEEDS_THAT_REACH_EVERYTHING,
    smallest=lambda seed: repr(shrink(draw(seed))),
)

if __name__ == "__main__":
    sys.exit(main(LAYER))
