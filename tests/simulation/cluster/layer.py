"""The layer `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import fewer, plainer
from tests.simulation.shells import planted as planted_in_shells

from . import (
    planted_in_bookies,
    planted_in_clients,
    planted_in_healing,
    planted_in_journals,
    planted_in_offloading,
)
from .draw import draw
from .plan import Leaves, Plan
from .run import play


def _fewer(plan: Plan) -> Iterator[Plan]:
    return filter(_is_whole, fewer(plan))


def _is_whole(plan: Plan) -> bool:
    """Whether everybody whom others need is there, and whom faults name."""
    names = {user.name for user in plan.users}
    return {user.of for user in plan.users if user.of} <= names and {
        fault.user for fault in plan.faults if isinstance(fault, Leaves)
    } <= names


LAYER = Layer(
    "cluster",
    "Whole clusters of the real classes, under virtual time and faults of every kind.",
    draw,
    play,
    simpler=(_fewer, plainer),
    plants=planted_in(
        planted_in_bookies,
        planted_in_clients,
        planted_in_healing,
        planted_in_journals,
        planted_in_offloading,
        planted_in_shells,
    ),
    seeds_default=200,
)
