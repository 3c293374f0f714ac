"""Metrics of a daemon's own health."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metadata.counting.facts import Finding, Verdict
from metadata.counting.metric_declarations import MetricTable

METRICS = MetricTable("health", "Every daemon: its health, fact by fact")

VERDICT = METRICS.gauge(
    "fact",
    "1 for the current verdict on this fact, 0 for the other verdicts; `unknown` is also a verdict.",
    "fact",
    "verdict",
    bookkeeper="bookie_SERVER_STATUS",
)
AGE = METRICS.gauge("fact_age_seconds", "Age of the data for this fact, if known.", "fact")


class HealthMetrics(Collector):
    """Metrics of a daemon's health. Those of a bookie have the bookie's name as the label `bookie`, like all metrics of
    a bookie."""

    def __init__(self, findings: Callable[[], Sequence[Finding]]) -> None:
        self._findings = findings

    def describe(self) -> list[Metric]:
        """Returns no metrics, because this is called at registration, before the daemon is complete."""
        return []

    def collect(self) -> Iterator[Metric]:
        verdicts, ages = VERDICT.family(), AGE.family()
        for one in self._findings():
            labels = {**({"bookie": one.of} if one.of else {}), "fact": one.fact.name}
            for verdict in Verdict:
                verdicts.add_sample(VERDICT.name, labels | {"verdict": verdict.value}, one.verdict is verdict)
            if one.verdict is not Verdict.UNKNOWN:
                ages.add_sample(AGE.name, labels, one.age_seconds)
        yield from (verdicts, ages)
