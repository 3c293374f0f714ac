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

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.registry import Collector

from bookie.wire import Columns
from metadata.counting.counting_store import Counts
from metadata.counting.declared import Declaration, MetricTable
from metadata.counting.metrics import CALLS_TOLD, SECONDS_TOLD, of_counts

from ..errors import (
    AppendTimeout,
    BookieUnavailable,
    DigestMismatch,
    EntryUnreadable,
    LedgerClosed,
    LedgerFenced,
    LedgerIdReused,
    MetadataUnavailable,
    NoSuchEntry,
    NotEnoughBookies,
    Unauthorized,
)

SECONDS = (
    0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 5.0, 60.0,
)  # fmt: skip
"""Histogram buckets: fine from half a millisecond to half a second, then coarse."""

APPEND_ERRORS = (
    AppendTimeout, LedgerClosed, LedgerFenced, LedgerIdReused, MetadataUnavailable, NotEnoughBookies, Unauthorized,
)  # fmt: skip
READ_ERRORS = (
    BookieUnavailable, DigestMismatch, EntryUnreadable, MetadataUnavailable, NoSuchEntry, Unauthorized,
)  # fmt: skip
OTHER = "other"
"""The kind of an error that is none of these."""

METRICS = MetricTable("client", "A client")

APPEND_SECONDS = METRICS.histogram(
    "append_seconds",
    "Time from taking in a batch of entries until its last one is confirmed.",
    SECONDS,
    bookkeeper="bookkeeper_client_ADD_ENTRY",
)
APPEND_ENTRIES = METRICS.counter("append_entries", "Entries that were confirmed.")
APPEND_BYTES = METRICS.counter("append_bytes", "Bytes of payloads that were confirmed.")
APPEND_FAILED = METRICS.counter(
    "append_failed_entries", f"Entries whose append failed, by the name of the error, or `{OTHER}`.", "error"
)
PENDING_ENTRIES = METRICS.gauge(
    "pending_entries",
    "Entries taken in and not confirmed yet, of all writers.",
    bookkeeper="bookkeeper_client_NUM_PENDING_ADD",
)
PENDING_BYTES = METRICS.gauge("pending_bytes", "Bytes of their payloads.")
PENDING_LIMIT = METRICS.gauge(
    "pending_limit_bytes", "Bound of that, of all writers: a writer at its own makes appends wait."
)
WRITERS = METRICS.gauge("writers_open", "Writers that have not ended.")
LANES = METRICS.gauge("lanes_open", "Lanes of ledgers to bookies that are open.")
READ_SECONDS = METRICS.histogram(
    "read_seconds",
    "Time to fetch and verify a page.",
    SECONDS,
    bookkeeper="bookkeeper_client_READ_ENTRY",
)
READ_ENTRIES = METRICS.counter("read_entries", "Entries that were read and verified.")
READ_BYTES = METRICS.counter("read_bytes", "Bytes of their payloads.")
READ_FAILURES = METRICS.counter(
    "read_failures", f"Pages that no replica gave, by the name of the error, or `{OTHER}`.", "error"
)
READS = METRICS.gauge("reads_in_flight", "Pages that are being fetched.")
CHANGES = METRICS.counter(
    "ensemble_changes",
    "Changes of an ensemble that stand in the metadata.",
    bookkeeper="bookkeeper_client_NUM_ENSEMBLE_CHANGE",
)
FAILED_BOOKIES = METRICS.counter("bookie_failures", "Times that a bookie failed or fell behind.")
RECOVERIES = METRICS.counter(
    "recoveries",
    "Recoveries of ledgers, by outcome.",
    "outcome",
    bookkeeper="bookkeeper_client_LEDGER_RECOVER_count",
)
METADATA_CALLS = METRICS.counter("metadata_calls", CALLS_TOLD, "call", "outcome")
METADATA_SECONDS = METRICS.counter("metadata_call_seconds", SECONDS_TOLD, "call")

_of_registries: weakref.WeakKeyDictionary[CollectorRegistry, ClientMetrics] = weakref.WeakKeyDictionary()
_one_at_a_time = threading.Lock()


class ClientMetrics:
    """The metrics of all clients given the same registry. May be used from several threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.metadata = Counts()
        self.append_seconds = APPEND_SECONDS.histogram_in(registry)
        self.append_entries = APPEND_ENTRIES.counter_in(registry)
        self.append_bytes = APPEND_BYTES.counter_in(registry)
        self.append_failed = _ByError(registry, APPEND_FAILED, APPEND_ERRORS)
        self.pending_entries = PENDING_ENTRIES.gauge_in(registry)
        self.pending_bytes = PENDING_BYTES.gauge_in(registry)
        self.pending_limit = PENDING_LIMIT.gauge_in(registry)
        self.writers = WRITERS.gauge_in(registry)
        self.lanes = LANES.gauge_in(registry)
        self.read_seconds = READ_SECONDS.histogram_in(registry)
        self.read_entries = READ_ENTRIES.counter_in(registry)
        self.read_bytes = READ_BYTES.counter_in(registry)
        self.read_failures = _ByError(registry, READ_FAILURES, READ_ERRORS)
        self.reads = READS.gauge_in(registry)
        self.changes = CHANGES.counter_in(registry)
        self.failed_bookies = FAILED_BOOKIES.counter_in(registry)
        recoveries = RECOVERIES.counter_in(registry)
        self.recoveries = {outcome: recoveries.labels(outcome) for outcome in ("done", "failed")}
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

    def ended(self, error: Exception) -> None:
        """The writer has ended with this; what it has not confirmed has failed."""
        failed = self._metrics.append_failed.of(error)
        for _, _, entries, size in self._batches:
            failed.inc(entries)
            self._no_longer_pending(entries, size)
        self._batches.clear()
        self._metrics.writers.dec()
        self._metrics.pending_limit.dec(self._limit)

    def _no_longer_pending(self, entries: int, size: int) -> None:
        self._metrics.pending_entries.dec(entries)
        self._metrics.pending_bytes.dec(size)


class _ByError:
    """A counter for each kind of error, from the beginning: Prometheus sees no increase of one that is new."""

    def __init__(
        self, registry: CollectorRegistry, declared: Declaration, kinds: Sequence[type[Exception]]
    ) -> None:
        counter = declared.counter_in(registry)
        self._counters = {kind.__name__: counter.labels(kind.__name__) for kind in kinds}
        self._other = counter.labels(OTHER)

    def of(self, error: Exception) -> Counter:
        return self._counters.get(type(error).__name__, self._other)


class _OfMetadata(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        yield from of_counts(self._counts, METADATA_CALLS, METADATA_SECONDS)
