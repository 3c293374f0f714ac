"""Metrics of a process's calls to the metadata store."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from .counting_store import Counts
from .metric_declarations import Declaration, MetricTable

METRICS = MetricTable("metadata", "The metadata")

CALLS_DESCRIPTION = "Calls to the metadata store, by name and outcome: `done`, or the name of the error."
SECONDS_DESCRIPTION = "Total duration of the calls of this name."

CALLS = METRICS.counter("calls", CALLS_DESCRIPTION, "call", "outcome")
SECONDS = METRICS.counter("call_seconds", SECONDS_DESCRIPTION, "call")


def of_counts(counts: Counts, calls: Declaration = CALLS, seconds: Declaration = SECONDS) -> Iterator[Metric]:
    """Yields the metrics of calls and their outcomes. A client exports the same metrics under its own names."""
    how_often, how_long = calls.family(), seconds.family()
    for (call, outcome), count in counts.calls().items():
        how_often.add_metric((call, outcome), count)
    for call, taken in counts.seconds().items():
        how_long.add_metric((call,), taken)
    yield from (how_often, how_long)


class MetadataMetrics(Collector):
    """Exports the metrics of metadata calls, for a process that has no other metrics."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        yield from of_counts(self._counts)
