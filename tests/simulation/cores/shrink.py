"""Makes a failing plan small, as long as it still fails in the same way.

Delta debugging over the plan's items: halves, quarters, … single operations, faults and rules are left out; then
figures go to what they are by default, and times and sizes to round ones. Keyed chance keeps the rest as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from .cluster import Failed, run_plan
from tests.simulation.cores.plans.plan import Append, Figures, Plan
from tests.simulation.cores.site.seams import BookieType
from tests.simulation.cores.site.servers import SimulatedBookie

Item = Any
Fails = Callable[[Plan], str | None]

RUNS_MAX = 3_000
"""A plan that is not small after so many runs stays as it is."""

LISTS = ("rules", "operations", "faults")


def rule_broken_by(plan: Plan, bookie_type: BookieType = SimulatedBookie) -> str | None:
    """The rule that a run of the plan breaks, if any."""
    try:
        run_plan(plan, bookie_type, tracing=False)
    except Failed as failed:
        return failed.rule
    return None


def shrink(plan: Plan, fails: Fails = rule_broken_by, *, runs_max: int = RUNS_MAX) -> Plan:
    """A small plan that breaks the same rule as this one. Raises ValueError where this one breaks none."""
    rule = fails(plan)
    if rule is None:
        raise ValueError("the plan does not fail")
    return _Shrinking(fails, rule, runs_max).smallest(plan)


def changed(plan: Plan, fields_: dict[str, Any]) -> Plan:
    """The plan with these fields instead."""
    return replace(plan, **fields_)


class _Shrinking:
    """Tries simpler plans until none of them fails in the same way."""

    def __init__(self, fails: Fails, rule: str, runs_max: int) -> None:
        self._fails = fails
        self._rule = rule
        self._runs_left = runs_max

    def smallest(self, plan: Plan) -> Plan:
        while True:
            before = plan
            for pass_ in (self._without_items, self._plainer, self._rounder):
                plan = pass_(plan)
            if plan == before or self._runs_left <= 0:
                return plan

    def _still_fails(self, plan: Plan) -> bool:
        self._runs_left -= 1
        return self._runs_left >= 0 and self._fails(plan) == self._rule

    # --- leaving out ----------------------------------------------------------------------------

    def _without_items(self, plan: Plan) -> Plan:
        for name in LISTS:
            plan = self._shorter(plan, name)
        return plan

    def _shorter(self, plan: Plan, name: str) -> Plan:
        """Leaves out runs of items, long ones first."""
        size = len(getattr(plan, name))
        while size >= 1:
            start = 0
            while start < len(getattr(plan, name)):
                items = getattr(plan, name)
                shorter = changed(plan, {name: items[:start] + items[start + size :]})
                if self._still_fails(shorter):
                    plan = shorter
                else:
                    start += size
            size //= 2
        return plan

    # --- making plain ---------------------------------------------------------------------------

    def _plainer(self, plan: Plan) -> Plan:
        for changes in _plainer_wholes(plan):
            candidate = changed(plan, changes)
            if candidate != plan and self._still_fails(candidate):
                plan = candidate
        return plan

    def _rounder(self, plan: Plan) -> Plan:
        for name in LISTS:
            for index in range(len(getattr(plan, name))):
                plan = self._round_item(plan, name, index)
        return plan

    def _round_item(self, plan: Plan, name: str, index: int) -> Plan:
        for field, value in _rounder_values(getattr(plan, name)[index]):
            items: Sequence[Item] = getattr(plan, name)
            item = replace(items[index], **{field: value})
            candidate = changed(plan, {name: (*items[:index], item, *items[index + 1 :])})
            if item != items[index] and self._still_fails(candidate):
                plan = candidate
        return plan


def _plainer_wholes(plan: Plan) -> Iterator[dict[str, Any]]:
    yield {"deferred_sync": False}
    yield {"delay_ensemble_change": False}
    yield {"figures": Figures()}
    default = Figures()
    for f in fields(Figures):
        yield {"figures": replace(plan.figures, **{f.name: getattr(default, f.name)})}
    for bookies in range(plan.shape[0], plan.bookies):
        yield {"bookies": bookies}


def _rounder_values(item: Item) -> Iterator[tuple[str, Any]]:
    """Fields with rounder values, the roundest last: whole seconds, then tens; single parts; small entries."""
    for f in fields(item):
        value = getattr(item, f.name)
        if isinstance(item, Append) and f.name == "sizes":
            yield f.name, (1,) * len(value)
            yield f.name, (1,)
        elif isinstance(value, bool):
            yield f.name, False
        elif isinstance(value, float):
            yield f.name, float(round(value))
            yield f.name, float(round(value, -1))
        elif isinstance(value, tuple):
            for part in value if len(value) > 1 else ():
                yield f.name, (part,)
