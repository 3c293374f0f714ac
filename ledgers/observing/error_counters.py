"""Counters of failures, by the name of the error."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from metadata.counting.metric_declarations import Declaration

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

APPEND_ERRORS = (
    AppendTimeout, LedgerClosed, LedgerFenced, LedgerIdReused, MetadataUnavailable, NotEnoughBookies, Unauthorized,
)  # fmt: skip
READ_ERRORS = (
    BookieUnavailable, DigestMismatch, EntryUnreadable, MetadataUnavailable, NoSuchEntry, Unauthorized,
)  # fmt: skip
OTHER = "other"
"""The label for errors of any other kind."""


class ErrorCounters:
    """A counter for each kind of error, created at once because Prometheus does not see a counter's first value as an
    increase."""

    def __init__(
        self, registry: CollectorRegistry, declared: Declaration, kinds: Sequence[type[Exception]]
    ) -> None:
        counter = declared.counter_in(registry)
        self._counters = {kind.__name__: counter.labels(kind.__name__) for kind in kinds}
        self._other = counter.labels(OTHER)

    def of(self, error: Exception) -> Counter:
        return self._counters.get(type(error).__name__, self._other)
