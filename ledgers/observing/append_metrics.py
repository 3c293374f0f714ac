"""Counts the appends of a client's writers in plain numbers per writer, which are added up when the registry collects.

Prometheus counters acquire a lock at every increment, which for small batches takes several percent of a writer's time.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from bookie.wire import Columns

from .client_metric_declarations import (
    APPEND_BYTES,
    APPEND_ENTRIES,
    APPEND_FAILED,
    APPEND_SECONDS,
    PENDING_BYTES,
    PENDING_ENTRIES,
    PENDING_LIMIT,
    SECONDS,
    WRITERS,
)
from .error_counters import APPEND_ERRORS, ErrorCounters


class AppendCounts:
    """Counts of entries taken in and confirmed, and the duration of each batch. Updated on one thread, read on any
    thread."""

    def __init__(self) -> None:
        self.entries_taken = self.bytes_taken = 0
        self.entries_confirmed = self.bytes_confirmed = 0
        self.seconds = 0.0
        self.counts = [0] * (len(SECONDS) + 1)
        """By bound of a batch's time; the last count is of batches longer than all bounds."""

    def add(self, other: AppendCounts) -> None:
        # Read before the taken count, so that pending is never below zero.
        self.entries_confirmed += other.entries_confirmed
        self.bytes_confirmed += other.bytes_confirmed
        self.entries_taken += other.entries_taken
        self.bytes_taken += other.bytes_taken
        self.seconds += other.seconds
        self.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]


class WriterMetrics:
    """Measures the batches of one writer. Belongs to one event loop."""

    def __init__(self, metrics: AppendMetrics, pending_bytes_max: int) -> None:
        self._metrics = metrics
        self._batches: deque[tuple[int, float, int, int]] = deque()
        self.appended = AppendCounts()
        self.pending_bytes_max = pending_bytes_max
        metrics.begins(self)

    def taken(self, columns: Columns) -> None:
        """Records a batch that the state machine has taken in."""
        entries, size = len(columns), len(columns.payload)
        self._batches.append((columns.last_entry, time.monotonic(), entries, size))
        self.appended.entries_taken += entries
        self.appended.bytes_taken += size

    def answered(self, last_entry: int) -> None:
        """Records that appends through this entry have completed."""
        now, batches, appended = time.monotonic(), self._batches, self.appended
        while batches and batches[0][0] <= last_entry:
            _, began, entries, size = batches.popleft()
            appended.counts[bisect_left(SECONDS, now - began)] += 1
            appended.seconds += now - began
            appended.entries_confirmed += entries
            appended.bytes_confirmed += size

    def ended(self, error: Exception) -> None:
        """Records that the writer has ended with this error; its unconfirmed entries have failed."""
        appended = self.appended
        self._metrics.failed.of(error).inc(appended.entries_taken - appended.entries_confirmed)
        self._batches.clear()
        self._metrics.ended(self)


class AppendMetrics(Collector):
    """Adds up the counts of the writers of all clients with the same registry. May be used from several threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failed = ErrorCounters(registry, APPEND_FAILED, APPEND_ERRORS)
        self._one_at_a_time = threading.Lock()
        self._writers: set[WriterMetrics] = set()
        self._before = AppendCounts()
        registry.register(self)

    def begins(self, writer: WriterMetrics) -> None:
        """Includes a writer in the metrics until it has ended."""
        with self._one_at_a_time:
            self._writers.add(writer)

    def ended(self, writer: WriterMetrics) -> None:
        """Keeps the writer's confirmed counts; its entries no longer count as pending."""
        appended = writer.appended
        with self._one_at_a_time:
            self._writers.discard(writer)
            appended.entries_taken = appended.entries_confirmed
            appended.bytes_taken = appended.bytes_confirmed
            self._before.add(appended)

    def collect(self) -> Iterable[Metric]:
        total = AppendCounts()
        with self._one_at_a_time:
            total.add(self._before)
            for writer in self._writers:
                total.add(writer.appended)
            writers, limit = len(self._writers), sum(one.pending_bytes_max for one in self._writers)
        yield APPEND_SECONDS.of_counts(total.counts, total.seconds)
        yield APPEND_ENTRIES.of(total.entries_confirmed)
        yield APPEND_BYTES.of(total.bytes_confirmed)
        yield PENDING_ENTRIES.of(total.entries_taken - total.entries_confirmed)
        yield PENDING_BYTES.of(total.bytes_taken - total.bytes_confirmed)
        yield PENDING_LIMIT.of(limit)
        yield WRITERS.of(writers)

    def describe(self) -> Iterable[Metric]:
        """Describes the collector, so that no other metric takes its names."""
        return self.collect()
