"""The layer `cores`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer

from .cluster import play
from .plans.draw import draw
from .planted.table import PLANTS
from .probes import Probe
from .shrink import fewer, plainer, rounded

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
