"""`python -m tests.hunt.speed [COMMIT] [--seconds N]`: whether what stands here is slower than a commit.

`bookledger bench` runs of both in pairs, the one or the other first in turn. The ratio of a pair says what one machine
made of both in one minute; the spread of the ratios is the noise. A workload is slower where not one pair of at least
PAIRS_MIN says otherwise, and the median by more than SLOWER_BY; so noise alone is told in one of 32 workloads at most.
The processor time of an append, of the client and all bookies, is beside it: other programs disturb it less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

PAIRS_MIN = 5
SLOWER_BY = 0.03
BENCH_SECONDS = 1.0
"""Of each workload in one run."""

HERE = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Speed:
    """One workload in one run."""

    adds_per_s: float
    cpu_us: float


Run = Mapping[str, Speed]
"""By workload."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload here and at the commit: ratios of the rates, a pair each, and the median ratio of processor time."""

    workload: str
    ratios: tuple[float, ...]
    cpu_ratio: float

    @property
    def is_slower(self) -> bool:
        """Whether each pair says so, and the median by more than SLOWER_BY."""
        return max(self.ratios) < 1 and median(self.ratios) < 1 - SLOWER_BY

    def __str__(self) -> str:
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        told = "  SLOWER" if self.is_slower else ""
        return f"{self.workload:26} {median(self.ratios):6.2f}  {spread:14} {self.cpu_ratio:10.2f}{told}"


HEADING = f"{'workload':26} {'ratio':>6}  {'of the pairs':14} {'processor':>10}"


def compare(pairs: Sequence[tuple[Run, Run]]) -> list[Compared]:
    """Of pairs (here, at the commit), what both have measured."""
    here, there = pairs[0]
    return [_compared(name, pairs) for name in here if name in there]


def _compared(workload: str, pairs: Sequence[tuple[Run, Run]]) -> Compared:
    both = [(here[workload], there[workload]) for here, there in pairs]
    return Compared(
        workload,
        tuple([here.adds_per_s / there.adds_per_s for here, there in both]),
        median([here.cpu_us / there.cpu_us for here, there in both]),
    )


def run_of(lines: Sequence[str]) -> Run:
    """What a run of the bench printed as JSON."""
    return {one["workload"]: _speed(one) for one in map(json.loads, lines)}


def _speed(one: Mapping[str, Any]) -> Speed:
    return Speed(one["adds_per_s"], one["client_cpu_us"] + one["bookies_cpu_us"])


def bench(tree: Path) -> Run:
    """Runs the bench of this tree, with this interpreter and what is installed for it."""
    command = [sys.executable, "-m", "bookledger", "bench", "--json", "--seconds", str(BENCH_SECONDS)]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    ended = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return run_of(ended.stdout.splitlines())


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The files of a commit."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        subprocess.run(
            ["git", "-C", HERE, "worktree", "add", "--quiet", "--detach", tree, commit], check=True
        )
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", HERE, "worktree", "remove", "--force", tree], check=True)


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.speed")
    parser.add_argument("commit", nargs="?", default=os.environ.get("AGAINST", "HEAD"))
    parser.add_argument("--seconds", type=int, default=600)
    arguments = parser.parse_args(given)
    until = time.monotonic() + arguments.seconds
    pairs: list[tuple[Run, Run]] = []
    with tree_of(arguments.commit) as there:
        while len(pairs) < PAIRS_MIN or time.monotonic() < until:
            runs = {tree: bench(tree) for tree in ((HERE, there) if len(pairs) % 2 else (there, HERE))}
            pairs.append((runs[HERE], runs[there]))
            print(f"pair {len(pairs)}, load {os.getloadavg()[0]:.1f}", flush=True)
    found = compare(pairs)
    print(f"this tree : {arguments.commit}, {len(pairs)} pairs\n{HEADING}", *found, sep="\n")
    return 1 if any(one.is_slower for one in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
