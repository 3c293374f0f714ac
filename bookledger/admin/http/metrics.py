"""Metrics of an HTTP port's connections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from bookie.wire.crowd import Crowd
from metadata.counting.declared import MetricTable

from .config import HttpConfig

METRICS = MetricTable("http", "The HTTP port of a daemon")

CONNECTIONS = METRICS.gauge("connections", "Connections of the HTTP port.")
LIMIT = METRICS.gauge("connections_limit", "How many of them there may be.")
REFUSED = METRICS.counter("connections_refused", "Connections that found no place.")
MADE_WAY = METRICS.counter(
    "connections_made_way",
    "Connections that were ended for others: they were idle, or of the address that had most.",
)


class HttpMetrics(Collector):
    """Of one port."""

    def __init__(self, crowd: Crowd, config: HttpConfig) -> None:
        self._crowd = crowd
        self._config = config

    def collect(self) -> Iterator[Metric]:
        yield CONNECTIONS.of(self._crowd.count)
        yield LIMIT.of(self._config.connections_max)
        yield REFUSED.of(self._crowd.refused)
        yield MADE_WAY.of(self._crowd.made_way)
