"""Many seeds of the second layer, or one with its trace.

    python -m tests.simulation.wet --seeds 5000      fresh seeds; prints the first, and how to repeat a failure
    python -m tests.simulation.wet --seconds 60      as many fresh seeds as fit
    python -m tests.simulation.wet --seed 4711       the plan of one seed, and everything that happened

The last line is `seeds=N violations=N seeds_per_second=N first_seed=N`; the exit code is 1 if a seed failed.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from .run import Failed, run_wet_seed

FIRST_SEED_MAX = 10**9
PROGRESS_SECONDS = 2.0
FAILURES_SHOWN_MAX = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.wet",
        description="Random schedules of faults against the real log and codec.",
    )
    parser.add_argument("--seed", type=int, help="repeat one seed and print its plan and trace")
    parser.add_argument("--seeds", type=int, help="how many fresh seeds to run (default 1000)")
    parser.add_argument("--seconds", type=float, help="run fresh seeds for so long")
    parser.add_argument("--first-seed", type=int, help="begin here instead of anywhere")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return replay(arguments.seed)
    first = secrets.randbelow(FIRST_SEED_MAX) if arguments.first_seed is None else arguments.first_seed
    seeds_max = 1000 if arguments.seeds is None and arguments.seconds is None else arguments.seeds
    return campaign(first, seeds_max, arguments.seconds)


def replay(seed: int) -> int:
    """One run, told line by line."""
    violations, began = 0, time.monotonic()
    try:
        run = run_wet_seed(seed).run
    except Failed as failed:
        violations = 1
        print(failed.plan)
        print("\n".join(failed.trace))
        print(failed.__cause__)
    else:
        print(run.plan)
        print("\n".join(run.trace))
        print(f"{run.events} events, {run.confirmed} confirmed, closed at {run.last_entry}: no violation")
    _say_last(1, violations, time.monotonic() - began, seed)
    return violations


def campaign(first_seed: int, seeds_max: int | None, seconds: float | None) -> int:
    """Seeds from the first on, until so many are done or so much time is up."""
    print(f"== wet: seeds from {first_seed}", flush=True)
    began = said = time.monotonic()
    seeds = violations = 0
    while (seeds_max is None or seeds < seeds_max) and (
        seconds is None or time.monotonic() < began + seconds
    ):
        violations += _fails(first_seed + seeds, is_shown=violations < FAILURES_SHOWN_MAX)
        seeds += 1
        if (now := time.monotonic()) - said > PROGRESS_SECONDS:
            said = now
            print(f"   {seeds} seeds, {seeds / (now - began):.0f} a second", file=sys.stderr, flush=True)
    _say_last(seeds, violations, time.monotonic() - began, first_seed)
    return 1 if violations else 0


def _fails(seed: int, *, is_shown: bool) -> bool:
    try:
        run_wet_seed(seed, tracing=False)
    except Failed as failed:
        if is_shown:
            again = f"python -m tests.simulation.wet --seed {seed}"
            print(f"seed {seed}: {failed.__cause__}; repeat it with: {again}", flush=True)
        return True
    return False


def _say_last(seeds: int, violations: int, seconds: float, first_seed: int) -> None:
    rate = seeds / max(seconds, 1e-9)
    print(f"seeds={seeds} violations={violations} seeds_per_second={rate:.0f} first_seed={first_seed}")


if __name__ == "__main__":
    sys.exit(main())
