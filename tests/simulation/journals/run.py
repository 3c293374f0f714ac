"""One plan, one run of a journal.

run_journal_seed(7)       draws the plan of seed 7 and runs it
run_journal_plan(plan)    raises Failed with the plan and the end of its trace where a promise was broken
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.engine.world import Violation

from .cluster import Cluster
from .draw import draw
from .plan import Plan
from .probes import JournalProbe

TRACE_SHOWN = 80


@dataclass(frozen=True, slots=True)
class JournalRun:
    """What one plan led to. `messages` are those that a `Tamper` may name, in their order."""

    plan: Plan
    probes: frozenset[JournalProbe]
    events: int
    trace: tuple[str, ...]
    trace_hash: str
    messages: tuple[tuple[str, str, str, int], ...]


class Failed(AssertionError):
    """A plan broke a promise; `rule` says which, the cause how."""

    def __init__(self, plan: Plan, rule: str, trace: list[str]) -> None:
        super().__init__(f"{rule}\n{plan!r}\n" + "\n".join(trace[-TRACE_SHOWN:]))
        self.plan = plan
        self.rule = rule
        self.trace = tuple(trace)


def run_journal_seed(seed: int, *, tracing: bool = True) -> JournalRun:
    """The plan of this seed, run."""
    return run_journal_plan(draw(seed), tracing=tracing)


def run_journal_plan(plan: Plan, *, tracing: bool = True) -> JournalRun:
    """One whole run. Raises Failed."""
    cluster = Cluster(plan, tracing=tracing)
    site = cluster.site
    try:
        cluster.run()
    except Violation as violation:
        raise Failed(plan, violation.rule, site.trace) from violation
    except Exception as error:  # a fault of the product, or of this harness: the plan fails with it
        raise Failed(plan, type(error).__name__, site.trace) from error
    return JournalRun(
        plan,
        frozenset(site.probes),
        site.events,
        tuple(site.trace),
        site.trace_hash,
        tuple(cluster.network.messages),
    )
