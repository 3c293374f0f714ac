"""Prometheus metrics of a client, in a registry that the application passes: `ClientConfig(metrics=registry)`.

Counted once per batch or page, never per entry.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from bookie.wire import Columns
from metadata.counting.counting_store import Counts
from metadata.counting.store_metrics import of_counts

from .append_metrics import AppendMetrics
from .client_metric_declarations import (
    CHANGES,
    FAILED_BOOKIES,
    LANES,
    METADATA_CALLS,
    METADATA_SECONDS,
    READ_BYTES,
    READ_ENTRIES,
    READ_FAILURES,
    READ_SECONDS,
    READS,
    RECOVERIES,
)
from .error_counters import READ_ERRORS, ErrorCounters
from .log_metrics import LogMetrics

_of_registries: weakref.WeakKeyDictionary[CollectorRegistry, ClientMetrics] = weakref.WeakKeyDictionary()
_one_at_a_time = threading.Lock()


class ClientMetrics:
    """The metrics of all clients with the same registry. May be used from several threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.metadata = Counts()
        self.appends = AppendMetrics(registry)
        self.lanes = LANES.gauge_in(registry)
        self.read_seconds = READ_SECONDS.histogram_in(registry)
        self.read_entries = READ_ENTRIES.counter_in(registry)
        self.read_bytes = READ_BYTES.counter_in(registry)
        self.read_failures = ErrorCounters(registry, READ_FAILURES, READ_ERRORS)
        self.reads = READS.gauge_in(registry)
        self.changes = CHANGES.counter_in(registry)
        self.failed_bookies = FAILED_BOOKIES.counter_in(registry)
        recoveries = RECOVERIES.counter_in(registry)
        self.recoveries = {outcome: recoveries.labels(outcome) for outcome in ("done", "failed")}
        self.logs = LogMetrics(registry)
        registry.register(_OfMetadata(self.metadata))

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Counts the recovery inside the block, by outcome."""
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            self.recoveries[outcome].inc()

    @contextmanager
    def reading(self, fetched: list[Columns]) -> Iterator[None]:
        """Measures the fetch inside the block, which puts its page into `fetched`."""
        began = time.monotonic()
        try:
            with self.reads.track_inprogress():
                yield
        except Exception as error:
            self.read_failures.of(error).inc()
            raise
        for columns in fetched:
            self.read_seconds.observe(time.monotonic() - began)
            self.read_entries.inc(len(columns))
            self.read_bytes.inc(len(columns.payload))


def metrics_in(registry: CollectorRegistry | None) -> ClientMetrics | None:
    """Returns the metrics of the clients that share this registry; None if there is no registry."""
    if registry is None:
        return None
    with _one_at_a_time:
        known = _of_registries.get(registry)
        if known is None:
            known = _of_registries[registry] = ClientMetrics(registry)
        return known


class _OfMetadata(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        yield from of_counts(self._counts, METADATA_CALLS, METADATA_SECONDS)
