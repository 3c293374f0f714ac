"""The layer `journals`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import changed, fewer, plainer

from . import planted_in_acceptors, planted_in_managers, planted_in_operators
from .draw import draw
from .plan import Plan, Writer
from .probes import JournalProbe, SyncProbe
from .run import play


def _idle(plan: Plan) -> Iterator[Plan]:
    """With a writer that does nothing: were it taken out, faults would name others, which go by their numbers."""
    for n, writer in enumerate(plan.writers):
        idle = Writer(writer.at, segments=(), attempts=0)
        yield changed(plan, {"writers": (*plan.writers[:n], idle, *plan.writers[n + 1 :])})


LAYER = Layer(
    "journals",
    "Random schedules of faults against writers, readers and acceptors of a journal, some of them synced and replaced.",
    draw,
    play,
    simpler=(_idle, fewer, plainer),
    plants=planted_in(planted_in_acceptors, planted_in_managers, planted_in_operators),
    probes=(*JournalProbe, *SyncProbe),
    seeds_that_reach_everything=20_000,
    counts_errors=False,
)
