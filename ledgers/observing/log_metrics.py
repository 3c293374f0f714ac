"""Metrics of a client's logs: its writers, readers and consumers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry

from .client_metric_declarations import (
    CONSUMER_LAG_SECONDS,
    CONSUMER_MISSED_RECORDS,
    CONSUMER_POSITION,
    CURSOR_COMMITS,
    LOG_APPEND_RECORDS,
    LOG_CLOCK_AHEAD,
    LOG_FORGOTTEN_PRODUCERS,
    LOG_PRODUCER_RECORDS,
    LOG_READ_RECORDS,
    LOG_TAKE_OVERS,
)


class LogMetrics:
    """The metrics of a client's logs. They are updated once per batch, never per record."""

    def __init__(self, registry: CollectorRegistry) -> None:
        take_overs = LOG_TAKE_OVERS.counter_in(registry)
        self._take_overs = {outcome: take_overs.labels(outcome) for outcome in ("done", "failed")}
        self.append_records = LOG_APPEND_RECORDS.counter_in(registry)
        producer_records = LOG_PRODUCER_RECORDS.counter_in(registry)
        self.stored_records, self.repeated_records = map(producer_records.labels, ("stored", "repeated"))
        self.forgotten_producers = LOG_FORGOTTEN_PRODUCERS.counter_in(registry)
        self.read_records = LOG_READ_RECORDS.counter_in(registry)
        self.clock_ahead_seconds = LOG_CLOCK_AHEAD.gauge_in(registry)
        self.commits = CURSOR_COMMITS.counter_in(registry)
        self.missed_records = CONSUMER_MISSED_RECORDS.counter_in(registry)
        self._positions = CONSUMER_POSITION.gauge_in(registry)
        self._lags = CONSUMER_LAG_SECONDS.gauge_in(registry)

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Counts the take-over inside the block, by outcome."""
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            self._take_overs[outcome].inc()

    def consumes(self, log: str, cursor: str, position: int, time_us: int | None) -> None:
        """Records that a consumer has reached a position. `time_us` is the append time of the record there; None at the
        end of the log."""
        self._positions.labels(log, cursor).set(position)
        lag = 0.0 if time_us is None else max(0.0, time.time() - time_us / 1_000_000)
        self._lags.labels(log, cursor).set(lag)

    def consumes_no_more(self, log: str, cursor: str) -> None:
        """Removes the values of a consumer that has stopped, because they would be mistaken for current ones."""
        for gauge in (self._positions, self._lags):
            with suppress(KeyError):  # the consumer received no batch
                gauge.remove(log, cursor)
