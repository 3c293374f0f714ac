"""Prometheus metrics read from the state of a bookie at scrape time, in addition to those of `storage_metrics`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metadata.counting.counting_store import Counts
from metadata.counting.metric_declarations import MetricTable
from metadata.counting.store_metrics import of_counts
from metadata.records.cluster import Cookie

from ..storage.bookie import Bookie
from ..storage.storage_metrics import APPEND_BYTES, APPEND_ENTRIES, READ_BYTES, READ_ENTRIES
from ..upkeep.upkeep import Upkeep
from ..upkeep.upkeep_metrics import of_upkeep
from .bookie_registration import Registrar
from .listener import Listener

METRICS = MetricTable("bookie", "A bookie: its state, its disk, and the resources its peers hold")

ABOUT = METRICS.info("Identity of the bookie.", "bookie_id", "incarnation", "cluster_id", "version")
LEASE_AGE = METRICS.gauge("lease_age_seconds", "Time since the bookie's lease was last renewed.")
CERTIFICATE = METRICS.gauge(
    "certificate_left_seconds",
    "Time until the bookie's certificate expires and new connections fail; +Inf without a certificate.",
)
QUEUE = METRICS.gauge(
    "log_queue_bytes",
    "Bytes that wait to be written to the log.",
    bookkeeper="bookie_journal_JOURNAL_MEMORY_USED",
)
QUEUE_LIMIT = METRICS.gauge(
    "log_queue_limit_bytes",
    "Limit of the log's queue; beyond that, the bookie stops reading from clients.",
    bookkeeper="bookie_journal_JOURNAL_MEMORY_MAX",
)
BUSY = METRICS.gauge(
    "log_busy_seconds",
    "How long the log has been writing and syncing its current group; this grows while the disk hangs.",
)
DISK = METRICS.gauge("disk_bytes", "Size of the bookie's disk.")
DISK_FREE = METRICS.gauge("disk_free_bytes", "Free space on the disk, as of the last check.")
RESERVE = METRICS.gauge("reserve_bytes", "Disk space kept back for fences and recovery writes.")
RESERVE_LEFT = METRICS.gauge("reserve_left_bytes", "Unused part of the reserve.")
RESERVE_IN_USE = METRICS.gauge("reserve_in_use", "1 while part of the reserve is in use.")
INDEX = METRICS.gauge("index_bytes", "Size of the index.")
INDEX_LIMIT = METRICS.gauge("index_limit_bytes", "Size limit of the index.")
LEDGERS = METRICS.gauge(
    "ledgers", "Ledgers in the index, as of its last checkpoint.", bookkeeper="bookie_ledgers_count"
)
LEDGERS_IN_MEMORY = METRICS.gauge("ledgers_in_memory", "Ledgers whose state is held in memory.")
HELD = METRICS.gauge("limit_held", "Number of connections or calls that peers currently hold.", "limit")
HELD_MAX = METRICS.gauge("limit_max", "Limit on the connections or calls that peers may hold.", "limit")
HELD_BYTES = METRICS.gauge("limit_held_bytes", "Memory that peers currently hold.", "limit")
HELD_BYTES_MAX = METRICS.gauge("limit_max_bytes", "Limit on the memory that peers may hold.", "limit")
PAST = METRICS.counter(
    "limit_past", "Number of times that a peer reached a limit, and waited or was refused.", "limit"
)

BYTES = "_bytes"
"""Suffix of the names of those limits that are in bytes."""


class Lookups(Collector):
    """Collects the metrics of one bookie. Belongs to the bookie's event loop."""

    def __init__(
        self,
        bookie: Bookie,
        upkeep: Upkeep,
        registrar: Registrar,
        listener: Listener,
        counts: Counts,
        cookie: Cookie,
        version: str,
    ) -> None:
        self._counts = counts
        self._bookie = bookie
        self._upkeep = upkeep
        self._registrar = registrar
        self._listener = listener
        self._about = {
            "bookie_id": cookie.bookie_id,
            "incarnation": cookie.incarnation,
            "cluster_id": cookie.cluster_id,
            "version": version,
        }

    def describe(self) -> list[Metric]:
        """Returns an empty list, so that registering this collector does not collect from a bookie that is not complete
        yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield ABOUT.about(self._about)
        yield from self._of_requests()
        yield from self._of_storage()
        yield LEASE_AGE.of(self._registrar.held.age_seconds)
        certificates = self._listener.certificates
        ends = math.inf if certificates is None else certificates.expires_at.timestamp()
        yield CERTIFICATE.of(ends - time.time())
        yield from self._of_limits()
        yield from of_upkeep(self._upkeep)
        yield from of_counts(self._counts)

    def _of_requests(self) -> Iterator[Metric]:
        counters = self._bookie.metrics.counters
        yield APPEND_ENTRIES.of(counters.entries_added)
        yield APPEND_BYTES.of(counters.bytes_added)
        yield READ_ENTRIES.of(counters.entries_read)
        yield READ_BYTES.of(counters.bytes_read)

    def _of_storage(self) -> Iterator[Metric]:
        bookie, space = self._bookie, self._bookie.space
        yield QUEUE.of(bookie.intake.bytes)
        yield QUEUE_LIMIT.of(bookie.intake.bytes_max)
        yield BUSY.of(bookie.log_busy_seconds)
        yield DISK.of(space.total_bytes)
        yield DISK_FREE.of(space.free_bytes)
        yield RESERVE.of(space.reserve.size_bytes)
        yield RESERVE_LEFT.of(space.reserve.left_bytes)
        yield RESERVE_IN_USE.of(space.reserve.is_touched)
        yield INDEX.of(bookie.index.size_bytes)
        yield INDEX_LIMIT.of(bookie.index.bytes_max)
        yield LEDGERS.of(bookie.index.ledger_count)
        yield LEDGERS_IN_MEMORY.of(len(bookie.states))

    def _of_limits(self) -> Iterator[Metric]:
        held, limits, past = HELD.family(), HELD_MAX.family(), PAST.family()
        held_bytes, limits_bytes = HELD_BYTES.family(), HELD_BYTES_MAX.family()
        for name, usage in self._listener.guard.report()["limits"].items():
            if isinstance(usage, dict):
                is_bytes = name.endswith(BYTES)
                (held_bytes if is_bytes else held).add_metric((name,), usage["now"])
                (limits_bytes if is_bytes else limits).add_metric((name,), usage["limit"])
                past.add_metric((name,), usage["past"])
            else:
                past.add_metric((name,), usage)
        yield from (held, limits, held_bytes, limits_bytes, past)
