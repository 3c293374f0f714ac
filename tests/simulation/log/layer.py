"""The layer `log`."""

from __future__ import annotations

from tests.simulation.cores.plans.draw import draw
from tests.simulation.cores.plans.plan import Plan
from tests.simulation.cores.shrink import fewer, plainer, rounded
from tests.simulation.engine.layer import Layer

from .planted import PLANTS
from .run import WetRun, run_wet_plan


def play(plan: Plan, tracing: bool) -> WetRun:
    """Raises Failed."""
    return run_wet_plan(plan, tracing=tracing)


LAYER = Layer(
    "log",
    "Random schedules of faults against the real log and codec.",
    draw,
    play,
    simpler=(fewer, plainer, rounded),
    plants=PLANTS,
    seeds_default=3_000,
)
