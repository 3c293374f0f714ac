"""Writers that race, leaders, readers, truncations and forks of a log, and a set of logs: L1 to L7 and L9 to L13."""

from __future__ import annotations

from tests.simulation.engine.contract import LayerContract

from .found import FOUND
from .layer import LAYER


class TestLogs(LayerContract):
    layer = LAYER
    found = FOUND
    seeds = 95
    same_seeds = 5
