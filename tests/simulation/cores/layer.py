"""The layer `cores`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer

from .cluster import Run, run_plan
from .plans.draw import draw
from .plans.plan import Plan
from .planted.table import PLANTS
from .probes import Probe
from .shrink import fewer, plainer, rounded


def play(plan: Plan, tracing: bool) -> Run:
    """Raises Failed."""
    return run_plan(plan, tracing=tracing)


LAYER = Layer(
    "cores",
    "Random schedules of faults against the machines.",
    draw,
    play,
    simpler=(fewer, plainer, rounded),
    plants=PLANTS,
    probes=tuple(Probe),
    seeds_that_reach_everything=20_000,
    seeds_default=5_000,
)
