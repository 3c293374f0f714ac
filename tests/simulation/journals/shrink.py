"""Makes a failing plan small, as long as it still breaks the same rule: fewer faults and users, then plainer ones.

A writer is not taken out of the middle, since faults name writers by number: it becomes one that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from .plan import Figures, Plan, Writer
from .run import Failed, run_journal_plan

Fails = Callable[[Plan], str | None]

RUNS_MAX = 1_500
"""A plan that is not small after so many runs stays as it is."""


def rule_broken_by(plan: Plan) -> str | None:
    """The rule that a run of the plan breaks, if any."""
    try:
        run_journal_plan(plan, tracing=False)
    except Failed as failed:
        return failed.rule
    return None


def shrink(plan: Plan, fails: Fails = rule_broken_by, *, runs_max: int = RUNS_MAX) -> Plan:
    """A small plan that breaks the same rule as this one. Raises ValueError where this one breaks none."""
    rule = fails(plan)
    if rule is None:
        raise ValueError("the plan does not fail")
    runs = iter(range(runs_max))

    def still_fails(one: Plan) -> bool:
        return next(runs, None) is not None and fails(one) == rule

    while True:
        before = plan
        for simpler in (_with_fewer, _plainer):
            plan = _first_that_fails(plan, simpler, still_fails)
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


def _with_fewer(plan: Plan) -> Iterator[Plan]:
    for name in ("faults", "readers"):
        items = getattr(plan, name)
        size = len(items)
        while size >= 1:
            for start in range(0, len(items), size):
                yield replace(plan, **{name: items[:start] + items[start + size :]})
            size //= 2
    if plan.writers:
        yield replace(plan, writers=plan.writers[:-1])
    for n, writer in enumerate(plan.writers):
        yield _with_writer(plan, n, Writer(writer.at, segments=(), attempts=0))


def _plainer(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, admin="")
    yield replace(plan, figures=Figures())
    for name, value in _defaults(plan.figures):
        yield replace(plan, figures=replace(plan.figures, **{name: value}))
    for n, writer in enumerate(plan.writers):
        for name, value in _defaults(writer):
            if writer.attempts:
                yield _with_writer(plan, n, replace(writer, **{name: value}))
        if len(writer.segments) > 1:
            yield _with_writer(plan, n, replace(writer, segments=writer.segments[:-1]))
        if writer.attempts > 1:
            yield _with_writer(plan, n, replace(writer, attempts=1))
        for m, batches in enumerate(writer.segments):
            if len(batches) > 1:
                shorter = (*writer.segments[:m], batches[:-1], *writer.segments[m + 1 :])
                yield _with_writer(plan, n, replace(writer, segments=shorter))
    yield from _with_plainer_items(plan)


def _with_plainer_items(plan: Plan) -> Iterator[Plan]:
    for kind in ("faults", "readers"):
        items = getattr(plan, kind)
        for n, item in enumerate(items):
            for name, value in (*_defaults(item), *_rounder(item)):
                plain = replace(item, **{name: value})
                changed: dict[str, Any] = {kind: (*items[:n], plain, *items[n + 1 :])}
                yield replace(plan, **changed)
    yield replace(plan, heals_at=float(round(plan.heals_at)))


def _with_writer(plan: Plan, n: int, writer: Writer) -> Plan:
    return replace(plan, writers=(*plan.writers[:n], writer, *plan.writers[n + 1 :]))


def _defaults(item: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(item):
        if field.default is not MISSING and getattr(item, field.name) != field.default:
            yield field.name, field.default


def _rounder(item: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, float) and value != round(value):
            yield field.name, float(round(value))
