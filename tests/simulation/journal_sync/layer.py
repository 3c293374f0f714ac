"""The layer `journal_sync`."""

from __future__ import annotations

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.journals.layer import LAYER as JOURNALS
from tests.simulation.journals.probes import SyncProbe
from tests.simulation.journals.run import play

from . import planted
from .draw import draw

LAYER = Layer(
    "journal_sync",
    "Random schedules of faults against a journal whose acceptors are brought up to date, lost and replaced.",
    draw,
    play,
    simpler=JOURNALS.simpler,
    plants=planted_in(planted),
    probes=tuple(SyncProbe),
    seeds_that_reach_everything=20_000,
    counts_errors=False,
)
