"""Many seeds of the second layer, or one with its trace.

    python -m tests.simulation.log --seeds 5000      fresh seeds; prints the first, and how to repeat a failure
    python -m tests.simulation.log --seconds 60      as many fresh seeds as fit
    python -m tests.simulation.log --seed 4711       the plan of one seed, and everything that happened

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed.
"""

from __future__ import annotations

import sys

from tests.simulation.engine.layer import Broken, Layer, Outcome, main

from .run import Failed, run_wet_seed


def run(seed: int, tracing: bool) -> Outcome:
    """One seed. Raises Broken."""
    try:
        run = run_wet_seed(seed, tracing=tracing).run
    except Failed as failed:
        raise Broken(str(failed.__cause__), (repr(failed.plan), *failed.trace)) from failed
    end = f"{run.events} events, {run.confirmed} confirmed, closed at {run.last_entry}: no violation"
    return Outcome((repr(run.plan), *run.trace, end))


LAYER = Layer("wet", "Random schedules of faults against the real log and codec.", run)

if __name__ == "__main__":
    sys.exit(main(LAYER))
