"""Describes logs, sets and journals whose records are incomplete because the metadata went back, and their repair."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

NOT_IN_LEDGERS = (
    "no ledger records positions of cursors, growth of sets, or later changes of retention, legal holds and journals' "
    "formats"
)


@dataclass(frozen=True, slots=True)
class StaleRecord:
    """A log, a set or an acceptor whose record is older than its ledgers: `missing` describes the difference, and
    `doubts` what is unknown. `make` updates the record by compare-and-swap; it raises MetadataError, also if the record
    was changed in the meantime."""

    about: str
    missing: str
    doubts: tuple[str, ...]
    make: Callable[[], Awaitable[object]]
