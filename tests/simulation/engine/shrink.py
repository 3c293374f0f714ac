"""Makes a failing plan small, as long as it still fails in the same way. Keyed chance keeps the rest as it was.

A layer says how its plans become simpler, with the ways below or its own: first fewer items, then plainer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from .printed import Value

P = TypeVar("P")

Simpler = Callable[[P], Iterator[P]]
"""Plans that are a little simpler, those that save most first."""

RUNS_MAX = 2_000
"""A plan that is not small after so many runs stays as it is."""


def shrunk(
    plan: P, fails: Callable[[P], str | None], simpler: Sequence[Simpler[P]], runs_max: int = RUNS_MAX
) -> P:
    """A small plan that breaks the same rule as this one. Raises ValueError where this one breaks none."""
    rule = fails(plan)
    if rule is None:
        raise ValueError("the plan does not fail")
    runs = iter(range(runs_max))

    def still_fails(one: P) -> bool:
        return next(runs, None) is not None and fails(one) == rule

    while True:
        before = plan
        for way in simpler:
            plan = _as_far_as_it_goes(plan, way, still_fails)
        if plan == before:
            return plan


def _as_far_as_it_goes(plan: P, way: Simpler[P], fails: Callable[[P], bool]) -> P:
    """Goes on from each simpler plan that fails, until none of those that come from one does."""
    while True:
        found = next((one for one in way(plan) if one != plan and fails(one)), None)
        if found is None:
            return plan
        plan = found


def items_of(plan: Any) -> int:
    """How many things are in it."""
    lists = (getattr(plan, field.name) for field in fields(plan))
    return sum(isinstance(item, Value) for items in lists if isinstance(items, tuple) for item in items)


def with_fewer(plan: P, *names: str) -> Iterator[P]:
    """Without some items in a row of these fields, long rows first, the last ones first."""
    for name in names:
        items = getattr(plan, name)
        size = len(items)
        while size >= 1:
            for start in range(len(items) - size, -1, -size):
                yield changed(plan, {name: items[:start] + items[start + size :]})
            size //= 2


def with_simpler_items(plan: P, name: str, values: Callable[[Any], Iterator[tuple[str, Any]]]) -> Iterator[P]:
    """With one item of this field made simpler: `values` gives (field of the item, simpler value)."""
    items = getattr(plan, name)
    for n, item in enumerate(items):
        for field, value in values(item):
            yield changed(plan, {name: (*items[:n], replace(item, **{field: value}), *items[n + 1 :])})


def with_default(plan: P, name: str) -> Iterator[P]:
    """With this field, a dataclass, as it is by default; else with one of its own fields so."""
    value = getattr(plan, name)
    yield changed(plan, {name: type(value)()})
    for field, default in defaults(value):
        yield changed(plan, {name: replace(value, **{field: default})})


def defaults(item: Any) -> Iterator[tuple[str, Any]]:
    """Fields that are not as they are by default, and what they are then."""
    for field in fields(item):
        if field.default is not MISSING and getattr(item, field.name) != field.default:
            yield field.name, field.default


def rounder(item: Any) -> Iterator[tuple[str, Any]]:
    """Times with rounder values: whole seconds, then tens."""
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, float):
            yield field.name, float(round(value))
            yield field.name, float(round(value, -1))


def changed(plan: P, values: dict[str, Any]) -> P:
    """The plan with these fields instead."""
    return replace(plan, **values)  # type: ignore[type-var]  # every plan is a dataclass
