"""Makes a failing plan small, as long as it still fails in the same way. Keyed chance keeps the rest as it was.

First it has fewer items, then plainer ones. A layer whose plans need more than that has ways of its own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from itertools import chain
from typing import Any, TypeVar

from .printed import Value, given

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
    """How many things are in its lists."""
    return sum(len(items) for _, items in _lists(plan))


# --- ways to make a plan of values simpler ----------------------------------------------------------------


def fewer(plan: P) -> Iterator[P]:
    """Without some items in a row of its lists, or of those of its parts."""
    yield from with_fewer(plan, *(name for name, _ in _lists(plan)))
    for name, part in _values(plan):
        if isinstance(part, Value):
            for one in fewer(part):
                yield changed(plan, {name: one})


def plainer(plan: P) -> Iterator[P]:
    """With one field as it is by default, in the plan, in its parts or in an item of its lists; or with a value of an
    item that is rounder, or shorter."""
    for name, default in defaults(plan):
        yield changed(plan, {name: default})
    for name, value in _values(plan):
        if isinstance(value, Value):
            for one in plainer(value):
                yield changed(plan, {name: one})
    for name, items in _lists(plan):
        for n, item in enumerate(items):
            for one in chain(plainer(item), _rounder(item)):
                yield changed(plan, {name: (*items[:n], one, *items[n + 1 :])})


def with_fewer(plan: P, *names: str) -> Iterator[P]:
    """Without some items in a row of these fields, long rows first, the last ones first."""
    for name in names:
        items = getattr(plan, name)
        size = len(items)
        while size >= 1:
            for start in range(len(items) - size, -1, -size):
                yield changed(plan, {name: items[:start] + items[start + size :]})
            size //= 2


def changed(plan: P, values: dict[str, Any]) -> P:
    """The plan with these fields instead."""
    return replace(plan, **values)  # type: ignore[type-var]  # every plan is a dataclass


def defaults(item: Any) -> Iterator[tuple[str, Any]]:
    """Fields that are not as they are by default, and what they are then."""
    for field in fields(item):
        if field.default is not MISSING and getattr(item, field.name) != field.default:
            yield field.name, field.default


def _rounder(item: P) -> Iterator[P]:
    """No flags, whole seconds, then tens; of a tuple less, then a single part. What is as by default stays so."""
    for name, value in given(item).items():
        simpler: tuple[Any, ...] = ()
        if value is True:
            simpler = (False,)
        elif isinstance(value, float):
            simpler = (float(round(value)), float(round(value, -1)))
        elif isinstance(value, tuple) and not _is_list(value):
            simpler = tuple(_shorter(value))
        for one in simpler:
            yield changed(item, {name: one})


def _shorter(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if len(parts) > 1:
        yield parts[:-1]
        yield from ((part,) for part in parts)
    for n, part in enumerate(parts):
        if isinstance(part, tuple):
            yield from ((*parts[:n], shorter, *parts[n + 1 :]) for shorter in _shorter(part))
        elif isinstance(part, int) and part > 1:
            yield (*parts[:n], 1, *parts[n + 1 :])


def _values(item: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(item, field.name)) for field in fields(item)]


def _lists(item: Any) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, value) for name, value in _values(item) if _is_list(value)]


def _is_list(value: object) -> bool:
    """Of things that a plan names one by one."""
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Value)
