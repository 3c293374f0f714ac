"""Prometheus metrics that a bookie counts and times while it works; `serving/metrics.py` adds what it can look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from ...log.format import Kind
from ...log.writer import Written
from ...wire.messages import ReadReply, Status
from ..intake import Ticket
from .histogram import CheapHistogram
from .slow_appends import SlowAppends

SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Buckets of latencies, from a good disk's to a very bad one's."""

GROUP_BYTES = tuple(float(2**n) for n in range(10, 25, 2))
GROUP_RECORDS = tuple(float(2**n) for n in range(11))


@dataclass(slots=True)
class Counters:
    """Entries and bytes added and read since the bookie started."""

    entries_added: int = 0
    bytes_added: int = 0
    entries_read: int = 0
    bytes_read: int = 0


class BookieMetrics:
    """A bookie's metrics. For the event loop, but for `synced`, which the log's thread calls."""

    def __init__(self, slow_seconds: float, slow_told_seconds: float) -> None:
        self.registry = CollectorRegistry()
        self.counters = Counters()
        self._append_seconds = self._histogram(
            "bookledger_bookie_append_seconds",
            "From the arrival of a frame of entries until it is on disk.",
            SECONDS,
        )
        self._read_seconds = self._histogram(
            "bookledger_bookie_read_seconds",
            "What reading a page of entries takes, from memory or disk.",
            SECONDS,
        )
        self._sync_seconds = self._histogram(
            "bookledger_bookie_sync_seconds", "What one fdatasync of the log takes.", SECONDS
        )
        self._group_bytes = self._histogram(
            "bookledger_bookie_sync_group_bytes", "Bytes of the log that one sync makes durable.", GROUP_BYTES
        )
        self._group_records = self._histogram(
            "bookledger_bookie_sync_group_records",
            "Records of the log that one sync makes durable.",
            GROUP_RECORDS,
        )
        self._read_entries = self._counter(
            "bookledger_bookie_read_entries_total", "Entries given to readers."
        )
        self._read_bytes = self._counter(
            "bookledger_bookie_read_bytes_total", "Bytes of payloads given to readers."
        )
        self._damaged = self._counter(
            "bookledger_bookie_read_damaged_total",
            "Ranges of entries that could not be read or verified, each time.",
        )
        self._slow = SlowAppends(slow_seconds, slow_told_seconds)
        self._fences = self._counter("bookledger_bookie_fences_total", "Fences that were put on disk.")
        refused = Counter(
            "bookledger_bookie_refused_total",
            "Appends and fences that were refused, by what was answered.",
            ["status"],
            registry=self.registry,
        )
        bad = [status for status in Status if status not in (Status.OK, Status.WRITTEN)]
        self._refused: dict[Status, Counter] = {status: refused.labels(status.name.lower()) for status in bad}

    def stored(self, written: Sequence[Written], now: float) -> None:
        """Counts records that are on disk."""
        for record, _, _, ticket in written:
            assert isinstance(ticket, Ticket)
            if record.kind is Kind.FENCE:
                self._fences.inc()
            if record.columns is not None and not ticket.is_ours:
                self.counters.entries_added += len(record.columns)
                self.counters.bytes_added += len(record.columns.payload)
                seconds = now - ticket.began
                self._append_seconds.observe(seconds)
                self._slow.stored(record.ledger_id, seconds, now)

    def synced(self, seconds: float, records: int, size_bytes: int) -> None:
        """Counts a sync of a group."""
        self._sync_seconds.observe(seconds)
        self._group_records.observe(records)
        self._group_bytes.observe(size_bytes)
        self._slow.synced(seconds)

    def read(self, reply: ReadReply, seconds: float) -> None:
        """Counts a page that was read."""
        self._read_seconds.observe(seconds)
        self.counters.entries_read += len(reply.columns)
        self.counters.bytes_read += len(reply.columns.payload)
        self._read_entries.inc(len(reply.columns))
        self._read_bytes.inc(len(reply.columns.payload))
        self._damaged.inc(len(reply.damaged))

    def told(self) -> dict[str, Any]:
        """Fields of an InfoReply, besides what was stored."""
        return {
            "entries_read": self.counters.entries_read,
            "bytes_read": self.counters.bytes_read,
            "append_seconds_bounds": SECONDS,
            "append_counts": tuple(self._append_seconds.counts),
        }

    def answered(self, status: Status) -> None:
        """Counts an append or a fence that was refused."""
        self._refused[status].inc()

    def _histogram(self, name: str, help_text: str, bounds: Sequence[float]) -> CheapHistogram:
        return CheapHistogram(self.registry, name, help_text, bounds)

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(name, help_text, registry=self.registry)
