"""A failing plan becomes a small one that fails in the same way, and holds without the bug."""

from __future__ import annotations

import pytest

from tests.simulation.engine.planted import Plant
from tests.simulation.engine.shrink import shrunk

from .cluster import run_plan
from .layer import LAYER
from .plans.draw import draw
from .plans.plan import Append, Crash, Plan
from .planted.table import CANARY, PLANTS

ITEMS_MAX = 8
NAMES = (
    "does_not_send_pending_entries_again",
    "takes_an_unknown_outcome_for_success",
    "reads_without_fencing",
)


def _named(name: str) -> Plant:
    return next(plant for plant in PLANTS if plant.name == name)


@pytest.mark.parametrize("plant", [*map(_named, NAMES), CANARY], ids=lambda plant: plant.name)
def test_a_failing_plan_is_made_small(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        plant(patch)
        plan = draw(next(LAYER.failing_seeds(plant)))
        rule = LAYER.rule_broken_by(plan)
        small = LAYER.shrink(plan)
        assert LAYER.rule_broken_by(small) == rule
    assert small.size <= ITEMS_MAX, repr(small)
    assert small.size < plan.size or plan.size <= 2
    run_plan(small)  # without the bug it holds


def test_a_plan_shrinks_to_what_its_failure_needs() -> None:
    """Whatever else happens, only the crash of b1 and one append matter to this failure."""

    def fails(plan: Plan) -> str | None:
        crashed = any(isinstance(f, Crash) and f.node == "b1" for f in plan.faults)
        appended = any(isinstance(o, Append) and len(o.sizes) > 1 for o in plan.operations)
        return "made up" if crashed and appended else None

    plan = next(plan for plan in map(draw, range(10_000)) if fails(plan) and plan.size > 10)
    small = shrunk(plan, fails, LAYER.simpler)
    assert [type(item) for item in (*small.operations, *small.faults)] == [Append, Crash]
    assert small.rules == ()
    assert small.operations[0].at % 1 == 0
