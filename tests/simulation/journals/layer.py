"""The layer `journals`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in

from . import planted_in_acceptors, planted_in_managers
from .draw import draw
from .probes import JournalProbe
from .run import play
from .shrink import fewer, plainer

LAYER = Layer(
    "journals",
    "Random schedules of faults against writers, acceptors and readers of a journal.",
    draw,
    play,
    simpler=(fewer, plainer),
    plants=planted_in(planted_in_acceptors, planted_in_managers),
    probes=tuple(JournalProbe),
    seeds_that_reach_everything=10_000,
    counts_errors=False,
)
