"""Prometheus metrics that a bookie records as it works; `serving_metrics` adds those that are read at scrape time."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from metadata.counting.metric_declarations import Declaration, MetricTable
from metadata.rate_limit import LogRateLimit

from ..log.format import RecordKind
from ..log.group_commit import Written
from ..wire.messages import ReadReply, Status
from .intake_queue import Arrival, Ticket

# A histogram with cheap observations: an observation in Prometheus' own histogram takes eight times as long.
#
# An observation adds two numbers; the buckets are computed when the registry collects.


class CheapHistogram(Collector):
    """Counts observations by upper bound. Observed from one thread, collected from any."""

    def __init__(self, registry: CollectorRegistry, declared: Declaration) -> None:
        self._declared = declared
        self._bounds = declared.buckets
        self._total = 0.0
        self.counts = [0] * (len(self._bounds) + 1)
        """Number of observations for each bound, then of those larger than all bounds; each is counted once."""
        registry.register(self)

    def observe(self, amount: float) -> None:
        self.counts[bisect_left(self._bounds, amount)] += 1
        self._total += amount

    def collect(self) -> Iterable[HistogramMetricFamily]:
        yield self._declared.of_counts(self.counts, self._total)

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Describes the histogram, so that no other metric can take its name."""
        return self.collect()


log = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS_MIN = 10.0
"""Minimum seconds between two log lines, however many appends are slow."""


class SlowAppends:
    """Logs slow appends. `synced` is called on the log's thread, and `stored` soon afterwards on the event loop."""

    def __init__(self, slow_seconds: float) -> None:
        """`slow_seconds`: appends that take longer than this, from the first byte to disk, are slow."""
        self._slow_seconds = slow_seconds
        self._seldom = LogRateLimit(LOG_INTERVAL_SECONDS_MIN)
        self._sync_seconds = 0.0

    def synced(self, seconds: float) -> None:
        """Records the duration of the latest group's sync."""
        self._sync_seconds = seconds

    def stored(self, ledger_id: int, arrival: Arrival, now: float) -> None:
        """Logs an append if it was slow. `now` is the loop's clock."""
        here_seconds = now - arrival.at
        seconds = here_seconds + arrival.network_seconds
        if seconds < self._slow_seconds or (suppressed := self._seldom.admit(now)) is None:
            return
        sync_seconds = min(here_seconds, self._sync_seconds)
        log.warning(
            "an append took %.1f s: %.1f s over the network, %.1f s in the queue, %.1f s for the sync of its group%s",
            seconds,
            arrival.network_seconds,
            here_seconds - sync_seconds,
            sync_seconds,
            f"; {suppressed} more slow appends since the last such line" if suppressed else "",
            extra={"ledger": ledger_id, "peer": arrival.peer, "client": arrival.client},
        )


SECONDS = (
    0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
"""Latency buckets in seconds, ranging from the latency of a good disk to that of a very bad one."""

GROUP_BYTES = tuple(float(2**n) for n in range(10, 25, 2))
GROUP_RECORDS = tuple(float(2**n) for n in range(11))


class RequestKind(StrEnum):
    """Request kinds by which refusals are counted."""

    APPEND = "append"
    READ = "read"
    FENCE = "fence"
    LAST_ADD_CONFIRMED = "last_add_confirmed"
    HOLDINGS = "holdings"


GOOD = (Status.OK, Status.WRITTEN)

METRICS = MetricTable("bookie", "A bookie: appends, reads, and its log")

APPEND_SECONDS = METRICS.histogram(
    "append_seconds",
    "Time from the arrival of a frame of entries until it is on disk.",
    SECONDS,
    bookkeeper="bookkeeper_server_ADD_ENTRY_REQUEST",
)
APPEND_ENTRIES = METRICS.counter(
    "append_entries", "Entries stored for clients.", bookkeeper="bookkeeper_server_ADD_ENTRY_count"
)
APPEND_BYTES = METRICS.counter(
    "append_bytes", "Bytes of payloads stored for clients.", bookkeeper="bookie_WRITE_BYTES"
)
READ_SECONDS = METRICS.histogram(
    "read_seconds",
    "Time to read a page of entries, from memory or disk.",
    SECONDS,
    bookkeeper="bookkeeper_server_READ_ENTRY_REQUEST",
)
READ_ENTRIES = METRICS.counter(
    "read_entries", "Entries sent to readers.", bookkeeper="bookkeeper_server_READ_ENTRY_count"
)
READ_BYTES = METRICS.counter(
    "read_bytes", "Bytes of payloads sent to readers.", bookkeeper="bookie_READ_BYTES"
)
READ_DAMAGED = METRICS.counter(
    "read_damaged", "Ranges of entries that could not be read or verified, counted at each request for them."
)
REFUSED = METRICS.counter(
    "refused",
    "Requests that failed, by kind of request and by the answer's status.",
    "request",
    "status",
)
FENCES = METRICS.counter("fences", "Fences written to disk.")
SYNC_SECONDS = METRICS.histogram(
    "sync_seconds", "Duration of one fdatasync of the log.", SECONDS, bookkeeper="bookie_journal_JOURNAL_SYNC"
)
GROUP_BYTES_SIZE = METRICS.histogram(
    "sync_group_bytes",
    "Bytes of the log that one sync made durable.",
    GROUP_BYTES,
    bookkeeper="bookie_journal_JOURNAL_FORCE_WRITE_BATCH_BYTES",
)
GROUP_RECORDS_SIZE = METRICS.histogram(
    "sync_group_records",
    "Records of the log that one sync made durable.",
    GROUP_RECORDS,
    bookkeeper="bookie_journal_JOURNAL_FORCE_WRITE_BATCH_ENTRIES",
)


@dataclass(slots=True)
class Counters:
    """Entries and bytes added and read since the bookie started."""

    entries_added: int = 0
    bytes_added: int = 0
    entries_read: int = 0
    bytes_read: int = 0


class BookieMetrics:
    """A bookie's metrics. Belongs to the event loop, except `synced`, which the log's thread calls."""

    def __init__(self, slow_seconds: float) -> None:
        self.registry = registry = CollectorRegistry()
        self.counters = Counters()
        self._append_seconds = CheapHistogram(registry, APPEND_SECONDS)
        self._read_seconds = CheapHistogram(registry, READ_SECONDS)
        self._sync_seconds = CheapHistogram(registry, SYNC_SECONDS)
        self._group_bytes = CheapHistogram(registry, GROUP_BYTES_SIZE)
        self._group_records = CheapHistogram(registry, GROUP_RECORDS_SIZE)
        self._damaged = READ_DAMAGED.counter_in(registry)
        self._fences = FENCES.counter_in(registry)
        self._slow = SlowAppends(slow_seconds)
        refused = REFUSED.counter_in(registry)
        self._refused: dict[tuple[RequestKind, Status], Counter] = {
            (request, status): refused.labels(request.value, status.name.lower())
            for request in RequestKind
            for status in Status
            if status not in GOOD
        }

    def stored(self, written: Sequence[Written], now: float) -> None:
        """Counts records that are on disk."""
        counters = self.counters
        for record, _, _, ticket in written:
            if ticket is None:
                continue
            assert isinstance(ticket, Ticket)
            if record.kind is RecordKind.FENCE:
                self._fences.inc()
            columns, arrival = record.columns, ticket.arrival
            if columns is not None and (entries := len(columns)) and not ticket.is_ours:
                counters.entries_added += entries
                counters.bytes_added += len(columns.payload)
                self._append_seconds.observe(now - arrival.at)
                if not ticket.is_deferred:  # waiting for the sync of other requests does not count as slow
                    self._slow.stored(record.ledger_id, arrival, now)

    def synced(self, seconds: float, records: int, size_bytes: int) -> None:
        """Counts the sync of a group."""
        self._sync_seconds.observe(seconds)
        self._group_records.observe(records)
        self._group_bytes.observe(size_bytes)
        self._slow.synced(seconds)

    def read(self, reply: ReadReply, seconds: float) -> None:
        """Counts the read of a page."""
        self._read_seconds.observe(seconds)
        self.counters.entries_read += len(reply.columns)
        self.counters.bytes_read += len(reply.columns.payload)
        if reply.damaged:
            self._damaged.inc(len(reply.damaged))

    def info_fields(self) -> dict[str, Any]:
        """Returns the fields of an InfoReply, except those about storage."""
        return {
            "entries_read": self.counters.entries_read,
            "bytes_read": self.counters.bytes_read,
            "append_seconds_bounds": SECONDS,
            "append_counts": tuple(self._append_seconds.counts),
        }

    def answered(self, request: RequestKind, status: Status) -> None:
        """Counts an answer to a request of this kind if the answer is a refusal."""
        if status not in GOOD:
            self._refused[request, status].inc()
