"""Describes logs, sets and journals whose records are incomplete because the metadata has returned to an older state,
and how to repair them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

NOT_IN_LEDGERS = (
    "ledgers do not record cursor positions, growth of sets, or later changes to retention, legal holds and journals' "
    "formats"
)


@dataclass(frozen=True, slots=True)
class StaleRecord:
    """A log, a set or an acceptor whose record is older than its ledgers. `missing` describes the difference, and
    `doubts` the unknown details. `make` updates the record by compare-and-swap; it raises MetadataError, even if the
    only reason is that the record was changed in the meantime."""

    about: str
    missing: str
    doubts: tuple[str, ...]
    make: Callable[[], Awaitable[object]]
