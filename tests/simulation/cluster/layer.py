"""The layer `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.engine.layer import Layer
from tests.simulation.engine.planted import planted_in
from tests.simulation.engine.shrink import defaults, rounder, with_default, with_fewer, with_simpler_items
from tests.simulation.shells import planted as planted_in_shells

from . import planted_in_bookies, planted_in_clients, planted_in_healing, planted_in_journals
from .draw import draw
from .plan import Plan
from .run import play


def _fewer(plan: Plan) -> Iterator[Plan]:
    return with_fewer(plan, "faults", "rules")


def _fewer_users(plan: Plan) -> Iterator[Plan]:
    """Not the one that others need."""
    for one in with_fewer(plan, "users"):
        names = {user.name for user in one.users}
        is_whole = all(user.of in names or not user.of for user in one.users)
        if is_whole and all(getattr(fault, "user", user_of(one)) in names for fault in one.faults):
            yield one


def user_of(plan: Plan) -> str:
    """Any."""
    return plan.users[0].name if plan.users else ""


def _calmer(plan: Plan) -> Iterator[Plan]:
    return with_default(plan, "figures")


def _plainer(plan: Plan) -> Iterator[Plan]:
    yield from with_simpler_items(plan, "faults", defaults)
    yield from with_simpler_items(plan, "faults", rounder)


LAYER = Layer(
    "cluster",
    "Whole clusters of the real classes, under virtual time and faults of every kind.",
    draw,
    play,
    simpler=(_fewer, _fewer_users, _calmer, _plainer),
    plants=planted_in(
        planted_in_bookies, planted_in_clients, planted_in_healing, planted_in_journals, planted_in_shells
    ),
    seeds_default=200,
)
