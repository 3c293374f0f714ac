"""A rule broken on purpose, in the product's own code, to see that the random schedules would find such a bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Break = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """Bugs planted together (one, unless a second rule covers it), and how soon they are found.

    `seeds_max` is the budget: within so many seeds from 0 on it is found. `known` are seeds that found it when the
    draws were as they are now; they are tried first, so that a rare bug costs no time. `is_slow`: for `make test-long`.
    """

    breaks: tuple[Break, ...]
    seeds_max: int
    known: tuple[int, ...] = ()
    is_slow: bool = False

    @property
    def name(self) -> str:
        return " and ".join(one.__name__ for one in self.breaks)

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        for one in self.breaks:
            one(patch)
