"""One plan, one run of a journal.

run_journal_seed(7)       draws the plan of seed 7 and runs it
run_journal_plan(plan)    raises Failed with the plan and the end of its trace where a promise was broken
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.simulation.engine.runs import Failed

from .cluster import Cluster
from .draw import draw
from .plan import Plan


@dataclass(frozen=True, slots=True)
class JournalRun:
    """What one plan led to. `messages` are those that a `Tamper` may name, in their order."""

    plan: Plan
    probes: frozenset[Enum]
    events: int
    trace: tuple[str, ...]
    trace_hash: str
    messages: tuple[tuple[str, str, str, int], ...]

    @property
    def end(self) -> str:
        """In a line."""
        return f"{self.events} events, no violation"


def run_journal_seed(seed: int, *, tracing: bool = True) -> JournalRun:
    """The plan of this seed, run."""
    return run_journal_plan(draw(seed), tracing=tracing)


def run_journal_plan(plan: Plan, *, tracing: bool = True) -> JournalRun:
    """One whole run. Raises Failed."""
    cluster = Cluster(plan, tracing=tracing)
    site = cluster.site
    try:
        cluster.run()
    except Exception as why:  # a broken promise, or a fault of the product or of this harness
        raise Failed(plan, why, site.trace) from why
    return JournalRun(
        plan,
        frozenset(site.probes),
        site.events,
        tuple(site.trace),
        site.trace_hash,
        tuple(cluster.network.messages),
    )
