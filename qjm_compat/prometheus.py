"""A journal's Prometheus metrics, under Hadoop's names and in Hadoop's units.

Hadoop's own Prometheus sink translates the names of its beans in the same way: `Journal-<id>` and `CurrentLagTxns`
become `journal_current_lag_txns`. So dashboards made for JournalNodes work here, too. The prefix `hadoop_` marks names
that follow Hadoop's rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

Metrics = Callable[[], Mapping[str, Mapping[str, int | float | str]]]

PREFIX = "hadoop"

BEANS = {"Journal": "journal", "IPCLoggerChannel": "ipc_logger_channel"}
"""The metric name of each bean. The part of the bean's name after the first dash becomes the label `name`."""


class JournalMetrics(Collector):
    """A collector for `registry.register` that reports the `metrics` of a blocking or asyncio journal manager.

    With an asyncio manager, call it on the manager's event loop.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        """Returns nothing, so that registration does not query a journal that may not be open yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for bean, values in self._metrics().items():
            kind, _, name = bean.partition("-")
            for given, value in values.items():
                family = f"{PREFIX}_{BEANS[kind]}_{snake_case(given)}"
                if family not in families:
                    families[family] = GaugeMetricFamily(family, f"Hadoop's {given}.", labels=["name"])
                families[family].add_metric([name], _number(value))
        yield from families.values()


def snake_case(name: str) -> str:
    """Converts a name the way Hadoop does for Prometheus: `WritesRpc60sNumOps` becomes `writes_rpc60s_num_ops`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return apart.lower()


def _number(value: float | str) -> float:
    return float(value == "true") if isinstance(value, str) else value
