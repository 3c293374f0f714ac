"""Metrics of an HTTP port's connections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from bookie.wire.connection_table import ConnectionTable
from metadata.counting.declared import MetricTable

from .config import HttpConfig

METRICS = MetricTable("http", "The HTTP port of a daemon")

CONNECTIONS = METRICS.gauge("connections", "Connections of the HTTP port.")
LIMIT = METRICS.gauge("connections_limit", "Limit of concurrent connections of the HTTP port.")
REFUSED = METRICS.counter("connections_refused", "Connections refused because the port was full.")
MADE_WAY = METRICS.counter(
    "connections_made_way",
    "Connections closed in favour of others: they were idle, or of the address that had most.",
)


class HttpMetrics(Collector):
    """Metrics of one port."""

    def __init__(self, table: ConnectionTable, config: HttpConfig) -> None:
        self._table = table
        self._config = config

    def collect(self) -> Iterator[Metric]:
        yield CONNECTIONS.of(self._table.count)
        yield LIMIT.of(self._config.connections_max)
        yield REFUSED.of(self._table.refused)
        yield MADE_WAY.of(self._table.made_way)
