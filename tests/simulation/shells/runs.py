"""One seed, one run: real clients over real shells, everything that can go wrong, then calm, then nothing left.

run_seed(7)             raises Failed where a promise was broken
run_seed(7).trace       what happened, line by line
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from enum import Enum

from tests.simulation.engine.loop import LoopStuck, VirtualLoop, run
from tests.simulation.engine.runs import Failed, hash_of, warnings_are
from tests.simulation.engine.world import Violation

from .cluster import Cluster

PROBLEMS_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Run:
    """What one seed led to."""

    plan: int
    trace: tuple[str, ...]
    iterations: int
    confirmed: int
    ledgers: int
    probes: frozenset[Enum] = frozenset()

    @property
    def trace_hash(self) -> str:
        return hash_of(self.trace)

    @property
    def end(self) -> str:
        """In a line."""
        return f"{self.iterations} turns, {self.ledgers} ledgers, {self.confirmed} confirmed, no violation"


def run_seed(seed: int) -> Run:
    """One whole run. Raises Failed with the seed and the end of its trace."""
    loop = VirtualLoop()
    cluster = Cluster(seed, loop)
    problems = loop.problems
    with warnings_are(problems):
        try:
            run(cluster.run, loop)
        except (Violation, LoopStuck) as violation:
            problems.insert(0, repr(violation))
        except Exception as error:  # a fault of a shell, or of this harness: the seed fails with it
            problems.insert(0, f"{type(error).__name__}: {error}")
        trace, confirmed, ledgers = _outcome(cluster)
        del cluster
        gc.collect(0)  # all that this run has made is young
    if problems:
        raise Failed(seed, Violation("problems", "; ".join(problems[:PROBLEMS_SHOWN_MAX])), trace)
    return Run(seed, tuple(trace), loop.iterations, confirmed, ledgers)


def _outcome(cluster: Cluster) -> tuple[list[str], int, int]:
    confirmed = [watched.checker.confirmed_through + 1 for watched in cluster.watch]
    return cluster.site.world.trace, sum(confirmed), len(confirmed)
