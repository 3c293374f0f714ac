"""Many seeds, or one with its trace.

    python -m tests.simulation.campaign --seeds 100000     fresh seeds; prints the first, and how to repeat a failure
    python -m tests.simulation.campaign --seed 4711        one run, with everything that happened

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from .cluster import Failed, run_seed

FIRST_SEED_MAX = 10**9
PROGRESS_SECONDS = 2.0
FAILURES_SHOWN_MAX = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="campaign", description="Random schedules of faults against the protocol."
    )
    parser.add_argument("--seed", type=int, help="repeat one seed and print its trace")
    parser.add_argument("--seeds", type=int, default=5000, help="how many fresh seeds to run")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return replay(arguments.seed)
    first = secrets.randbelow(FIRST_SEED_MAX) if arguments.first_seed is None else arguments.first_seed
    return campaign(first, arguments.seeds)


def replay(seed: int) -> int:
    try:
        run = run_seed(seed)
    except Failed as failed:
        print("\n".join(failed.trace))
        print(failed.__cause__)
        return 1
    print("\n".join(run.trace))
    print(
        f"seed {seed}: {run.events} events, {run.confirmed} confirmed, closed at {run.last_entry}, no violation"
    )
    return 0


def campaign(first_seed: int, seeds: int) -> int:
    print(f"== sim: {seeds} seeds from {first_seed}", flush=True)
    began = said = time.monotonic()
    violations = 0
    for done, seed in enumerate(range(first_seed, first_seed + seeds), 1):
        try:
            run_seed(seed)
        except Failed as failed:
            violations += 1
            if violations <= FAILURES_SHOWN_MAX:
                print(f"seed {seed}: {failed.__cause__!r}; repeat it with: make sim SEED={seed}", flush=True)
        if (now := time.monotonic()) - said > PROGRESS_SECONDS:
            said = now
            print(f"   {done} of {seeds}, {done / (now - began):.0f} a second", file=sys.stderr, flush=True)
    rate = seeds / (time.monotonic() - began)
    print(f"seeds={seeds} violations={violations} seeds_per_second={rate:.0f} first_seed={first_seed}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
