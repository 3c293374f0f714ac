"""The layers by name. One that is new stands here and in `make sim`."""

from __future__ import annotations

import importlib
from typing import Any

from .engine.layer import Layer

LAYERS = ("cores", "upkeep", "journals", "cluster", "logs")


def layer_named(name: str) -> Layer[Any]:
    """Imported only now: each imports another part of the product."""
    layer: Layer[Any] = importlib.import_module(f"tests.simulation.{name}.layer").LAYER
    return layer
