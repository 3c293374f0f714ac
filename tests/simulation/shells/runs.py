"""One seed, one run: real clients over real shells, everything that can go wrong, then calm, then nothing left.

run_seed(7)             raises Failed where a promise was broken
run_seed(7).trace       what happened, line by line
"""

from __future__ import annotations

import gc
import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.engine.world import Violation
from .cluster import Cluster
from tests.simulation.engine.loop import LoopStuck, VirtualLoop, run


@dataclass(frozen=True, slots=True)
class Run:
    """What one seed led to."""

    seed: int
    trace: tuple[str, ...]
    iterations: int
    confirmed: int
    ledgers: int

    @property
    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


class Failed(AssertionError):
    """A seed broke a promise; the message says which, and how the run ended."""

    def __init__(self, seed: int, problems: list[str], trace: list[str]) -> None:
        super().__init__(f"seed {seed}: {problems[0]}\n" + "\n".join(trace[-40:]))
        self.seed = seed
        self.problems = tuple(problems)
        self.trace = tuple(trace)


def run_seed(seed: int) -> Run:
    """One whole run. Raises Failed with the seed and the end of its trace."""
    loop = VirtualLoop()
    cluster = Cluster(seed, loop)
    problems = loop.problems
    with _warnings_are(problems):
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
        raise Failed(seed, problems, trace)
    return Run(seed, tuple(trace), loop.iterations, confirmed, ledgers)


def _outcome(cluster: Cluster) -> tuple[list[str], int, int]:
    confirmed = [watched.checker.confirmed_through + 1 for watched in cluster.watch]
    return cluster.site.world.trace, sum(confirmed), len(confirmed)


@contextmanager
def _warnings_are(problems: list[str]) -> Iterator[None]:
    """Warnings, as of a coroutine that nobody awaited, are problems. No garbage is collected in between."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        problems.extend(str(warning.message) for warning in caught)
    finally:
        if was_enabled:
            gc.enable()
