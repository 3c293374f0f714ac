"""The layer `logs`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import fewer, plainer

from . import (
    planted,
    planted_in_accepting,
    planted_in_clocks,
    planted_in_coordination,
    planted_in_ends,
    planted_in_forks,
    planted_in_keeping,
    planted_in_ownership,
)
from .draw import draw
from .probes import LogProbe
from .run import play

LAYER = Layer(
    "logs",
    "Random schedules of faults against writers, leaders, readers, truncations and retention of a log; a set of logs.",
    draw,
    play,
    simpler=(fewer, plainer),
    plants=planted_in(
        planted,
        planted_in_keeping,
        planted_in_coordination,
        planted_in_clocks,
        planted_in_accepting,
        planted_in_ends,
        planted_in_ownership,
        planted_in_forks,
    ),
    probes=tuple(LogProbe),
    seeds_that_reach_everything=2_000,
)
