"""Writers that race, leaders, readers and truncations of a log, and a set of logs: L1 to L7 and L9 to L11."""

from __future__ import annotations

from tests.simulation.engine.contract import FoundPlans, LayerContract

from .found import FOUND
from .layer import LAYER


class TestLogs(LayerContract):
    layer = LAYER
    seeds = 60
    same_seeds = 5


class TestFoundPlans(FoundPlans):
    layer = LAYER
    found = FOUND
