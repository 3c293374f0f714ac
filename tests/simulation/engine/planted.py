"""A rule broken on purpose, in the product's own code, to see that the random schedules would find such a bug.

A bug is most often one function that stands in for one of the product's. The decorator says for which, and how soon
it is found:

    @around(Recovery, "_begin_reading", within=500, known=141)
    def starts_before_the_last_fragment(begin: Real, self: Recovery) -> Any:
        self._last_fragment = replace(self._last_fragment, first_entry=0, length_before=0)
        return begin(self)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

Break = Callable[[pytest.MonkeyPatch], None]
Real = Callable[..., Any]
"""A function of the product, as `around` hands it to the bug that stands in for it."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug, or some that are planted together because a second rule covers each; and how soon that is found.

    `known` is a seed that finds it with the draws as they are now: the tests run that one. `within` is the budget of
    a hunt: within so many seeds from 0 on it is found; 0 where nobody has to find it.
    """

    name: str
    breaks: tuple[Break, ...]
    within: int = 0
    known: int | None = None

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        """Plants it."""
        for one in self.breaks:
            one(patch)


def bug(*, within: int = 0, known: int | None = None) -> Callable[[Break], Plant]:
    """The bug is what the function does with `patch`."""
    return lambda breaks: Plant(breaks.__name__, (breaks,), within, known)


def instead_of(
    owner: object, name: str, *, within: int = 0, known: int | None = None
) -> Callable[[Real], Plant]:
    """The function stands in for this one of the product's."""

    def planted(broken: Real) -> Plant:
        return Plant(broken.__name__, (lambda patch: patch.setattr(owner, name, broken),), within, known)

    return planted


def around(owner: object, name: str, *, within: int = 0, known: int | None = None) -> Callable[[Real], Plant]:
    """The same; it is given the product's function first, to call it."""

    def planted(broken: Real) -> Plant:
        def breaks(patch: pytest.MonkeyPatch) -> None:
            real = getattr(owner, name)
            patch.setattr(owner, name, lambda *about, **options: broken(real, *about, **options))

        return Plant(broken.__name__, (breaks,), within, known)

    return planted


def together(*plants: Plant, within: int, known: int) -> Plant:
    """All of them at once."""
    return Plant(" and ".join(one.name for one in plants), plants, within, known)


def planted_in(*modules: ModuleType) -> tuple[Plant, ...]:
    """The bugs of these modules, in the order in which they stand there."""
    return tuple(one for module in modules for one in vars(module).values() if isinstance(one, Plant))
