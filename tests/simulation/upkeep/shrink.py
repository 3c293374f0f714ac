"""How the plans of this layer become simpler."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.engine.shrink import defaults, with_default, with_fewer, with_simpler_items

from .plan import Plan


def fewer(plan: Plan) -> Iterator[Plan]:
    """Without some steps in a row."""
    return with_fewer(plan, "steps")


def plainer(plan: Plan) -> Iterator[Plan]:
    """With sizes and steps as they are by default."""
    yield from with_default(plan, "sizes")
    yield from with_simpler_items(plan, "steps", defaults)
