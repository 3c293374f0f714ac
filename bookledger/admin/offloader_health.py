"""The HTTP metrics and readiness of `bookledger offloader`."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from bookie.upkeep.logs.log_sights import AskLag, lag_unknown
from ledgers.offloading.offloader import Offloader
from metadata.counting import facts
from metadata.counting.facts import Finding
from metadata.counting.metric_declarations import MetricTable

from .autorecovery_health import NOT_YET
from .http_content import HttpContent
from .process_metrics import process_registry

OFFLOADER = MetricTable("offloader", "The offloader")

STORED = OFFLOADER.gauge("stored_ledgers", "Ledgers that have a copy in an object store.")
STORED_BYTES = OFFLOADER.gauge("stored_bytes", "Bytes of objects that are copies of ledgers.")
WAITING = OFFLOADER.gauge("waiting_ledgers", "Ledgers that are due to be copied.")
WAITING_BYTES = OFFLOADER.gauge("waiting_bytes", "Payload bytes of ledgers that are due to be copied.")
MISSING = OFFLOADER.gauge("missing_ledgers", "Ledgers with a missing object.")
COPIED = OFFLOADER.counter("copied_ledgers", "Ledgers that this process has copied.")
COPIED_BYTES = OFFLOADER.counter("copied_bytes", "Payload bytes of ledgers that this process has copied.")
DROPPED = OFFLOADER.counter("dropped_ledgers", "Ledgers that this process has ordered bookies to drop.")
FAILED = OFFLOADER.counter("failures", "Failed attempts to copy or drop a ledger.")


class OffloaderHealth(Collector):
    """The health of an offloader, which need not exist yet: `has_started` adds the offloader when it starts."""

    def __init__(self) -> None:
        self._registry = process_registry()
        self._offloader: Offloader | None = None
        self.ask_lag: AskLag = lag_unknown

    def http_content(self) -> HttpContent:
        """Returns the content for `serving_http`."""
        return HttpContent(self._registry, self._findings)

    def has_started(self, offloader: Offloader) -> None:
        self._offloader = offloader
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        if self._offloader is None:
            return
        state, counts = self._offloader.state, self._offloader.counts
        yield STORED.of(state.stored)
        yield STORED_BYTES.of(state.stored_bytes)
        yield WAITING.of(state.waiting)
        yield WAITING_BYTES.of(state.waiting_bytes)
        yield MISSING.of(len(state.missing))
        yield COPIED.of(counts["copied"])
        yield COPIED_BYTES.of(counts["bytes"])
        yield DROPPED.of(counts["dropped"])
        yield FAILED.of(counts["failed"])

    def _findings(self) -> list[Finding]:
        return [facts.STARTED.found(NOT_YET if self._offloader is None else "")]
