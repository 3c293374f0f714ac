"""What a process tells Prometheus of its calls to the metadata."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from .counting_store import CountingStore, Counts
from .declared import Declaration, MetricTable

METRICS = MetricTable("metadata", "The metadata")

CALLS_TOLD = "Calls to the metadata store, by name and by `done` or the name of the error."
SECONDS_TOLD = "Time that the calls of this name took, all together."

CALLS = METRICS.counter("calls", CALLS_TOLD, "call", "outcome")
SECONDS = METRICS.counter("call_seconds", SECONDS_TOLD, "call")
REFUSES = METRICS.gauge(
    "refuses_changes",
    "1 while the metadata answers and refuses every change, such as an etcd that is out of space; 0 while it takes "
    "them, and none while that is not known.",
)


def of_counts(counts: Counts, calls: Declaration = CALLS, seconds: Declaration = SECONDS) -> Iterator[Metric]:
    """What was asked, and what came of it; a client shows the same under names of its own."""
    how_often, how_long = calls.family(), seconds.family()
    for (call, outcome), count in counts.calls().items():
        how_often.add_metric((call, outcome), count)
    for call, taken in counts.seconds().items():
        how_long.add_metric((call,), taken)
    yield from (how_often, how_long)


def of_health(store: CountingStore) -> Iterator[Metric]:
    """Nothing while it is not known."""
    if store.health_seen is not None:
        yield REFUSES.of(bool(store.health_seen.refuses))


class MetadataMetrics(Collector):
    """Of a process that asks the metadata, and does nothing else that is counted here."""

    def __init__(self, store: CountingStore) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        yield from of_counts(self._store.counts)
        yield from of_health(self._store)
