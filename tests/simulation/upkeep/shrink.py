"""Makes a failing plan small, as long as it still breaks the same rule: fewer steps, then plainer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from .plan import Plan, Sizes, Step
from .run import Failed, run_upkeep_plan

Fails = Callable[[Plan], str | None]

RUNS_MAX = 2_000
"""A plan that is not small after so many runs stays as it is."""


def rule_broken_by(plan: Plan) -> str | None:
    """The rule that a run of the plan breaks, if any."""
    try:
        run_upkeep_plan(plan, tracing=False)
    except Failed as failed:
        return failed.rule
    return None


def shrink(plan: Plan, fails: Fails = rule_broken_by, *, runs_max: int = RUNS_MAX) -> Plan:
    """A small plan that breaks the same rule as this one. Raises ValueError where this one breaks none."""
    rule = fails(plan)
    if rule is None:
        raise ValueError("the plan does not fail")
    runs = iter(range(runs_max))
    while True:
        before = plan
        for simpler in (_shorter, _plainer):
            plan = _first_that_fails(
                plan, simpler, lambda one: next(runs, None) is not None and fails(one) == rule
            )
        if plan == before:
            return plan


def _first_that_fails(
    plan: Plan, simpler: Callable[[Plan], Iterator[Plan]], fails: Callable[[Plan], bool]
) -> Plan:
    """Goes on from each simpler plan that fails, until none of those that come from one does."""
    while True:
        found = next((one for one in simpler(plan) if one != plan and fails(one)), None)
        if found is None:
            return plan
        plan = found


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Without some steps in a row, long rows first, the last ones first."""
    size = len(plan.steps)
    while size >= 1:
        for start in range(len(plan.steps) - size, -1, -size):
            yield replace(plan, steps=plan.steps[:start] + plan.steps[start + size :])
        size //= 2


def _plainer(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, sizes=Sizes())
    for field, value in _defaults(plan.sizes):
        yield replace(plan, sizes=replace(plan.sizes, **{field: value}))
    for n, step in enumerate(plan.steps):
        for field, value in _defaults(step):
            plain = replace(step, **{field: value})
            yield replace(plan, steps=(*plan.steps[:n], plain, *plan.steps[n + 1 :]))


def _defaults(item: Step | Sizes) -> Iterator[tuple[str, Any]]:
    for field in fields(item):
        if field.default is not MISSING and getattr(item, field.name) != field.default:
            yield field.name, field.default
