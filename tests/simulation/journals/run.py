"""One plan, one run of a journal."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.engine.runs import Failed, Outcome

from .cluster import Cluster
from .plan import Plan


@dataclass(frozen=True, slots=True)
class JournalRun(Outcome):
    """What one plan led to. `messages` are those that a `Tamper` may name, in their order."""

    messages: tuple[tuple[str, str, str, int], ...] = ()


def play(plan: Plan, tracing: bool = True) -> JournalRun:
    """One whole run. Raises Failed."""
    cluster = Cluster(plan, tracing=tracing)
    site = cluster.site
    try:
        cluster.run()
    except Exception as why:  # a broken promise, or a fault of the product or of this harness
        raise Failed(plan, why, site.trace) from why
    end = f"{site.events} events, no violation"
    messages = tuple(cluster.network.messages)
    return JournalRun(plan, tuple(site.trace), frozenset(site.probes), end, messages)
