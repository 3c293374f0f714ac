"""Metrics of an HTTP port's connections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from bookie.wire.crowd import Crowd

from .config import HttpConfig


class HttpMetrics(Collector):
    """Of one port."""

    def __init__(self, crowd: Crowd, config: HttpConfig) -> None:
        self._crowd = crowd
        self._config = config

    def collect(self) -> Iterator[Metric]:
        crowd = self._crowd
        yield GaugeMetricFamily("bookledger_http_connections", "Connections of the HTTP port.", crowd.count)
        yield GaugeMetricFamily(
            "bookledger_http_connections_limit",
            "How many of them there may be.",
            self._config.connections_max,
        )
        yield CounterMetricFamily(
            "bookledger_http_connections_refused", "Who found no room at the HTTP port.", crowd.refused
        )
        yield CounterMetricFamily(
            "bookledger_http_connections_made_way",
            "Those that were ended there, idle or of the largest crowd, for others.",
            crowd.made_way,
        )
