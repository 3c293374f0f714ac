"""How the plans of this layer become simpler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.simulation.engine.shrink import changed, rounder, with_default, with_fewer, with_simpler_items

from .plans.plan import Append, Plan

LISTS = ("rules", "operations", "faults")


def fewer(plan: Plan) -> Iterator[Plan]:
    """Without some of what happens."""
    return with_fewer(plan, *LISTS)


def plainer(plan: Plan) -> Iterator[Plan]:
    """Without what is special about the writer; figures as they are by default; fewer bookies."""
    yield changed(plan, {"deferred_sync": False})
    yield changed(plan, {"delay_ensemble_change": False})
    yield from with_default(plan, "figures")
    for bookies in range(plan.shape[0], plan.bookies):
        yield changed(plan, {"bookies": bookies})


def rounded(plan: Plan) -> Iterator[Plan]:
    """With one value of one item rounder."""
    for name in LISTS:
        yield from with_simpler_items(plan, name, _rounder)


def _rounder(item: Any) -> Iterator[tuple[str, Any]]:
    """Small entries, no flags, single parts, round times."""
    if isinstance(item, Append):
        yield "sizes", (1,)
        yield "sizes", (1,) * len(item.sizes)
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        if value is True:
            yield name, False
        elif isinstance(value, tuple) and len(value) > 1 and name != "sizes":
            for part in value:
                yield name, (part,)
    yield from rounder(item)
