"""The layer `logs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import defaults, rounder, with_default, with_fewer, with_simpler_items

from . import planted, planted_in_coordination, planted_in_keeping
from .draw import draw
from .plan import Plan
from .probes import LogProbe
from .run import play


def fewer(plan: Plan) -> Iterator[Plan]:
    """Without some of those who act, or some events."""
    yield from with_fewer(plan, "events", "readers", "writers")
    if plan.keeping is not None:
        yield replace(plan, keeping=None)
        for keeping in with_fewer(plan.keeping, "consumers", "auditors"):
            yield replace(plan, keeping=keeping)
    if plan.sharing is not None:
        yield replace(plan, sharing=None)
        for sharing in with_fewer(plan.sharing, "growths", "members", "writers"):
            yield replace(plan, sharing=sharing)


def plainer(plan: Plan) -> Iterator[Plan]:
    """With fewer terms, default figures, rounder times."""
    yield from with_default(plan, "figures")
    for name in ("events", "readers", "writers"):
        yield from with_simpler_items(plan, name, lambda item: chain(defaults(item), rounder(item)))


LAYER = Layer(
    "logs",
    "Random schedules of faults against writers, leaders, readers, truncations and retention of a log; a set of logs.",
    draw,
    play,
    simpler=(fewer, plainer),
    plants=planted_in(planted, planted_in_keeping, planted_in_coordination),
    probes=tuple(LogProbe),
    seeds_that_reach_everything=2_000,
)
