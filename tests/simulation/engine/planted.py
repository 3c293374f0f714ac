"""A rule broken on purpose, in the product's own code, to see that the random schedules would find such a bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Break = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """Bugs planted together (one, unless a second rule covers it), and how soon they are found.

    `known` is a seed that finds it with the draws as they are now: the tests run that one. `seeds_max` is the budget of
    a hunt: within so many seeds from 0 on it is found.
    """

    breaks: tuple[Break, ...]
    seeds_max: int
    known: int | None = None

    @property
    def name(self) -> str:
        return " and ".join(one.__name__ for one in self.breaks)

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        for one in self.breaks:
            one(patch)
