"""Prometheus metrics read from a bookie's state at scrape time, beside what `storage/counting` counts."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from metadata.counting.counting_store import CountingStore
from metadata.records.cluster import Cookie

from ..storage.bookie import Bookie
from ..upkeep.metrics import counter, gauge, of_metadata, of_upkeep
from ..upkeep.upkeep import Upkeep
from .limits.guard import Guard
from .registration import Registrar


class Lookups(Collector):
    """Collector of one bookie. Belongs to its event loop."""

    def __init__(
        self,
        bookie: Bookie,
        upkeep: Upkeep,
        registrar: Registrar,
        guard: Guard,
        store: CountingStore,
        cookie: Cookie,
        version: str,
    ) -> None:
        self._store = store
        self._bookie = bookie
        self._upkeep = upkeep
        self._registrar = registrar
        self._guard = guard
        self._about = {
            "bookie_id": cookie.bookie_id,
            "incarnation": cookie.incarnation,
            "cluster_id": cookie.cluster_id,
            "version": version,
        }

    def describe(self) -> list[Metric]:
        """Empty: registration must not collect from a bookie that is not complete yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("bookledger_bookie", "Which bookie this is.", value=self._about)
        yield from self._of_storage()
        yield from self._of_registration()
        yield from self._of_limits()
        yield from of_upkeep(self._upkeep)
        yield from of_metadata(self._store)

    def _of_storage(self) -> Iterator[Metric]:
        bookie, space = self._bookie, self._bookie.space
        counters = bookie.metrics.counters
        yield counter(
            "bookledger_bookie_append_entries", "Entries stored for clients.", counters.entries_added
        )
        yield counter(
            "bookledger_bookie_append_bytes", "Bytes of payloads stored for clients.", counters.bytes_added
        )
        yield gauge(
            "bookledger_bookie_log_queue_bytes", "Waits to be written to the log.", bookie.queue_bytes
        )
        yield gauge(
            "bookledger_bookie_log_queue_limit_bytes",
            "Nothing is read from clients past it.",
            bookie.queue_bytes_max,
        )
        yield gauge("bookledger_bookie_writable", "1 while it takes new entries.", not space.why_read_only)
        yield gauge("bookledger_bookie_disk_bytes", "The size of its disk.", space.total_bytes)
        yield gauge(
            "bookledger_bookie_disk_free_bytes",
            "What is free on it, when it was looked at last.",
            space.free_bytes,
        )
        yield gauge(
            "bookledger_bookie_reserve_in_use",
            "1 while the disk's reserve is touched.",
            space.reserve.is_touched,
        )
        yield gauge("bookledger_bookie_index_bytes", "The size of the index.", bookie.index.size_bytes)
        yield gauge(
            "bookledger_bookie_ledgers_in_memory",
            "Ledgers whose state is held in memory.",
            len(bookie.states),
        )

    def _of_registration(self) -> Iterator[Metric]:
        yield gauge("bookledger_bookie_registered", "1 while clients find it.", self._registrar.is_registered)
        yield gauge(
            "bookledger_bookie_lease_age_seconds",
            "Since its lease was renewed.",
            self._registrar.lease_age_seconds,
        )

    def _of_limits(self) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "bookledger_bookie_limit_held", "What peers make it hold now.", labels=["limit"]
        )
        limits = GaugeMetricFamily(
            "bookledger_bookie_limit_max", "How much of that it holds at most.", labels=["limit"]
        )
        past = CounterMetricFamily(
            "bookledger_bookie_limit_past", "How often somebody came past it.", labels=["limit"]
        )
        for name, told in self._guard.report()["limits"].items():
            if isinstance(told, dict):
                held.add_metric([name], told["now"])
                limits.add_metric([name], told["limit"])
                past.add_metric([name], told["past"])
            else:
                past.add_metric([name], told)
        yield from (held, limits, past)
