"""The layer `journals`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer

from .draw import draw
from .plan import Plan
from .planted import PLANTS
from .probes import JournalProbe
from .run import JournalRun, run_journal_plan
from .shrink import fewer, plainer


def play(plan: Plan, tracing: bool) -> JournalRun:
    """Raises Failed."""
    return run_journal_plan(plan, tracing=tracing)


LAYER = Layer(
    "journals",
    "Random schedules of faults against writers, acceptors and readers of a journal.",
    draw,
    play,
    simpler=(fewer, plainer),
    plants=PLANTS,
    probes=tuple(JournalProbe),
    seeds_that_reach_everything=10_000,
    counts_errors=False,
)
