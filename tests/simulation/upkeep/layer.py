"""The layer `upkeep`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import fewer, plainer

from . import planted
from .draw import draw
from .probes import UpkeepProbe
from .run import play

LAYER = Layer(
    "upkeep",
    "Random schedules of faults against a bookie that is kept in order.",
    draw,
    play,
    simpler=(fewer, plainer),
    plants=planted_in(planted),
    probes=tuple(UpkeepProbe),
    seeds_that_reach_everything=2_000,
    counts_errors=False,
)
