"""Many seeds of the shells under virtual time, or one with its trace.

    python -m tests.simulation.shells --seeds 1000    fresh seeds; says how to repeat a failure
    python -m tests.simulation.shells --seed 4711     one run, with everything that happened

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from .runs import Failed, run_seed

FIRST_SEED_MAX = 10**9
PROGRESS_SECONDS = 5.0
FAILURES_SHOWN_MAX = 10
PROBLEMS_SHOWN_MAX = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="virtual", description="Random schedules of faults against the real shells, in virtual time."
    )
    parser.add_argument("--seed", type=int, help="repeat one seed and print its trace")
    parser.add_argument("--seeds", type=int, default=500, help="how many fresh seeds to run")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return campaign(arguments.seed, 1, with_trace=True)
    first = secrets.randbelow(FIRST_SEED_MAX) if arguments.first_seed is None else arguments.first_seed
    return campaign(first, arguments.seeds, with_trace=False)


def campaign(first_seed: int, seeds: int, *, with_trace: bool) -> int:
    began = said = time.monotonic()
    violations = 0
    for done, seed in enumerate(range(first_seed, first_seed + seeds), 1):
        try:
            trace = run_seed(seed).trace
        except Failed as failed:
            trace = failed.trace
            violations += 1
            if violations <= FAILURES_SHOWN_MAX:
                print(f"seed {seed}: {'; '.join(failed.problems[:PROBLEMS_SHOWN_MAX])}", flush=True)
                print(f"repeat it with: python -m tests.simulation.shells --seed {seed}", flush=True)
        if with_trace:
            print("\n".join(trace))
        if (now := time.monotonic()) - said > PROGRESS_SECONDS:
            said = now
            print(f"   {done} of {seeds}, {violations} failed", file=sys.stderr, flush=True)
    rate = seeds / (time.monotonic() - began)
    print(f"seeds={seeds} violations={violations} seeds_per_second={rate:.1f} first_seed={first_seed}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
