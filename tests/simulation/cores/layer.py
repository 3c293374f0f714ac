"""The layer `cores`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.shrink import changed, fewer, plainer

from .cluster import play
from .plans.draw import draw
from .plans.plan import Plan
from .planted.table import PLANTS
from .probes import Probe


def _fewer_bookies(plan: Plan) -> Iterator[Plan]:
    for bookies in range(plan.shape[0], plan.bookies):
        yield changed(plan, {"bookies": bookies})


LAYER = Layer(
    "cores",
    "Random schedules of faults against the machines.",
    draw,
    play,
    simpler=(fewer, _fewer_bookies, plainer),
    plants=PLANTS,
    probes=tuple(Probe),
    seeds_that_reach_everything=20_000,
    seeds_default=5_000,
)
