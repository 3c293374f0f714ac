"""What metadata that went back does not know of a log, a set or a journal, and how that is mended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TOLD = (
    "where cursors stood, how sets grew, and what was changed since of retention, legal holds and journals' formats, "
    "no ledger tells"
)


@dataclass(frozen=True, slots=True)
class Behind:
    """A log, a set or an acceptor of which ledgers show more than its record: `missing`, and what could not be known,
    in words. `make` brings the record up by compare-and-swap; it raises MetadataError, also where somebody changed it
    meanwhile."""

    about: str
    missing: str
    doubts: tuple[str, ...]
    make: Callable[[], Awaitable[object]]
