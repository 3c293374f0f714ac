"""HTTP metrics and readiness of all bookies in a process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from prometheus_client import Metric
from prometheus_client.registry import Collector

from bookie.serving.daemon import RunningBookie
from bookie.upkeep.logs.log_sights import AskLag, lag_unknown
from metadata.counting import facts
from metadata.counting.facts import Finding

from .http_content import HttpContent
from .process_metrics import process_registry

STARTING = "the bookie is starting: it is waiting for the metadata, or reading its log"


class Bookies(Collector):
    """The bookies of a process; `count` is their number when all are running. The label `bookie` of a metric is the
    name of its bookie."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._running: list[RunningBookie] = []
        self.ask_lag: AskLag = lag_unknown

    def http_content(self) -> HttpContent:
        """Returns the content for `serving_http`."""
        registry = process_registry()
        registry.register(self)
        return HttpContent(registry, self.findings)

    def has_started(self, running: RunningBookie) -> None:
        self._running.append(running)
        running.upkeep.auditor.retention.ask_lag = self.ask_lag

    def findings(self) -> list[Finding]:
        """Returns the findings about the process and about each running bookie."""
        starting = STARTING if len(self._running) < self._count else ""
        return [
            *([facts.STARTED.found(starting)] if self._count else []),
            *(
                replace(found, of=one.cookie.bookie_id)
                for one in self._running
                for found in one.health.findings()
            ),
        ]

    def describe(self) -> list[Metric]:
        """Returns no metrics, because this is called at registration, before the bookies exist."""
        return []

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for one in self._running:
            for metric in one.bookie.metrics.registry.collect():
                family = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type, metric.unit)
                )
                for sample in metric.samples:
                    labels = {"bookie": one.cookie.bookie_id, **sample.labels}
                    family.samples.append(sample._replace(labels=labels))
        yield from found.values()
