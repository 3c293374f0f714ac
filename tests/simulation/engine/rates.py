"""How many of so many seeds find each planted bug: the tables of LAYERS.md."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from .layer import Layer
from .planted import Plant

KNOWN_SHOWN_MAX = 3

_LAYERS: list[Layer[Any]] = []
"""What the children run: they inherit it."""


def show_rates(layer: Layer[Any], seeds: int, only: str, processes: int) -> None:
    """A line for each bug whose name has `only` in it."""
    wanted = [n for n, plant in enumerate(layer.plants) if only in plant.name]
    _LAYERS[:] = [layer]
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        found = pool.map(found_by, wanted, [range(seeds)] * len(wanted))
        for n, those in zip(wanted, found, strict=True):
            _show(layer.plants[n], those)


def found_by(number: int, seeds: range) -> list[int]:
    """The seeds that find this planted bug."""
    (layer,) = _LAYERS
    with pytest.MonkeyPatch.context() as patch:
        layer.plants[number](patch)
        return [seed for seed in seeds if layer.finds(seed)]


def _show(plant: Plant, seeds: list[int]) -> None:
    first = ", ".join(map(str, seeds[:KNOWN_SHOWN_MAX])) or "none"
    print(f"{len(seeds):6d}  {plant.name}  (first {first}; budget {plant.within})", flush=True)
