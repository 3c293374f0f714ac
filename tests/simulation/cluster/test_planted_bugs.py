"""Bugs planted in whole clusters. In a file of their own, so that a process of its own runs them."""

from __future__ import annotations

from tests.simulation.engine.contract import PlantContract

from .layer import LAYER


class TestPlantedBugs(PlantContract):
    layer = LAYER
