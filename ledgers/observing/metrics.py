"""Prometheus metrics of a client, in a registry that the application passes: `ClientConfig(metrics=registry)`.

Counted once per batch or page, never per entry.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from bookie.wire import Columns
from metadata.counting.counting_store import Counts

SECONDS = (
    0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 5.0, 60.0,
)  # fmt: skip
"""Histogram buckets: fine from half a millisecond to half a second, then coarse."""

PREFIX = "bookledger_client"

_of_registries: weakref.WeakKeyDictionary[CollectorRegistry, ClientMetrics] = weakref.WeakKeyDictionary()
_one_at_a_time = threading.Lock()


class ClientMetrics:
    """The metrics of all clients given the same registry. May be used from several threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.metadata = Counts()
        self.append_seconds = self._histogram(
            "append_seconds", "From taking a batch of entries in until its last one is confirmed."
        )
        self.append_entries = self._counter("append_entries_total", "Entries that were confirmed.")
        self.append_bytes = self._counter("append_bytes_total", "Bytes of payloads that were confirmed.")
        self.append_failed = self._counter("append_failed_entries_total", "Entries whose append failed.")
        self.pending_entries = self._gauge("pending_entries", "Entries taken in and not confirmed yet.")
        self.pending_bytes = self._gauge("pending_bytes", "Bytes of their payloads, of all writers.")
        self.pending_limit = self._gauge(
            "pending_limit_bytes", "How much of that a writer holds before appends wait, times writers."
        )
        self.writers = self._gauge("writers_open", "Writers that have not ended.")
        self.lanes = self._gauge("lanes_open", "Ways of a ledger to a bookie that are open.")
        self.read_seconds = self._histogram("read_seconds", "What fetching a verified page takes.")
        self.read_entries = self._counter("read_entries_total", "Entries that were read and verified.")
        self.read_bytes = self._counter("read_bytes_total", "Bytes of their payloads.")
        self.read_failures = self._counter("read_failures_total", "Pages that no replica gave.")
        self.reads = self._gauge("reads_in_flight", "Pages that are being fetched.")
        self.changes = self._counter("ensemble_changes_total", "Changes of an ensemble that stand.")
        self.failed_bookies = self._counter(
            "bookie_failures_total", "How often a bookie failed or fell behind."
        )
        self.recoveries = Counter(
            f"{PREFIX}_recoveries_total", "Recoveries, by outcome.", ["outcome"], registry=registry
        )
        registry.register(_OfMetadata(self.metadata))

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Counts the recovery inside the block, by outcome."""
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            self.recoveries.labels(outcome).inc()

    @contextmanager
    def reading(self, fetched: list[Columns]) -> Iterator[None]:
        """Measures the fetch inside the block, which puts its page into `fetched`."""
        began = time.monotonic()
        try:
            with self.reads.track_inprogress():
                yield
        except Exception:
            self.read_failures.inc()
            raise
        for columns in fetched:
            self.read_seconds.observe(time.monotonic() - began)
            self.read_entries.inc(len(columns))
            self.read_bytes.inc(len(columns.payload))

    def _histogram(self, name: str, told: str) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", told, buckets=SECONDS, registry=self._registry)

    def _counter(self, name: str, told: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", told, registry=self._registry)

    def _gauge(self, name: str, told: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", told, registry=self._registry)


def metrics_in(registry: CollectorRegistry | None) -> ClientMetrics | None:
    """Returns the metrics of the clients that share this registry; None without one."""
    if registry is None:
        return None
    with _one_at_a_time:
        known = _of_registries.get(registry)
        if known is None:
            known = _of_registries[registry] = ClientMetrics(registry)
        return known


class WriterMetrics:
    """Measures the batches of one writer. Belongs to its event loop."""

    def __init__(self, metrics: ClientMetrics, pending_bytes_max: int) -> None:
        self._metrics = metrics
        self._limit = pending_bytes_max
        self._batches: deque[tuple[int, float, int, int]] = deque()
        metrics.writers.inc()
        metrics.pending_limit.inc(pending_bytes_max)

    def taken(self, columns: Columns) -> None:
        """Records a batch that the machine has taken in."""
        entries, size = len(columns), len(columns.payload)
        self._batches.append((columns.last_entry, time.monotonic(), entries, size))
        self._metrics.pending_entries.inc(entries)
        self._metrics.pending_bytes.inc(size)

    def answered(self, last_entry: int) -> None:
        """Records that appends through this entry have completed."""
        now = time.monotonic()
        while self._batches and self._batches[0][0] <= last_entry:
            _, began, entries, size = self._batches.popleft()
            self._metrics.append_seconds.observe(now - began)
            self._metrics.append_entries.inc(entries)
            self._metrics.append_bytes.inc(size)
            self._no_longer_pending(entries, size)

    def ended(self) -> None:
        """Records the writer's end: unconfirmed entries count as failed."""
        for _, _, entries, size in self._batches:
            self._metrics.append_failed.inc(entries)
            self._no_longer_pending(entries, size)
        self._batches.clear()
        self._metrics.writers.dec()
        self._metrics.pending_limit.dec(self._limit)

    def _no_longer_pending(self, entries: int, size: int) -> None:
        self._metrics.pending_entries.dec(entries)
        self._metrics.pending_bytes.dec(size)


class _OfMetadata(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Sequence[Metric]:
        calls = CounterMetricFamily(
            f"{PREFIX}_metadata_calls",
            "Calls to the metadata store, by name and how they ended.",
            labels=["call", "outcome"],
        )
        seconds = CounterMetricFamily(
            f"{PREFIX}_metadata_call_seconds", "What calls of this name took together.", labels=["call"]
        )
        for (call, outcome), count in self._counts.calls().items():
            calls.add_metric([call, outcome], count)
        for call, taken in self._counts.seconds().items():
            seconds.add_metric([call], taken)
        return calls, seconds
