"""Translates errors of ledgers and metadata into errors of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledgers import LedgerError, MetadataUnavailable
from metadata.errors import MetadataError, OutcomeUnknown, StoreRefused, StoreUnavailable

from .errors import JournalUnavailable, MetadataAway

METADATA_FAILED = "the metadata store under the journal failed"
"""Prefix of the metadata's error message."""


def as_unavailable(error: LedgerError, doing: str) -> JournalUnavailable:
    """Returns the journal's error for a LedgerError, which becomes its cause."""
    kind = MetadataAway if isinstance(error, MetadataUnavailable) else JournalUnavailable
    caused = kind(f"{doing}: {error}")
    caused.__cause__ = error
    return caused


@contextmanager
def ledger_errors(doing: str) -> Iterator[None]:
    """Raises the block's LedgerErrors as JournalUnavailable."""
    try:
        yield
    except LedgerError as error:
        raise as_unavailable(error, doing) from error


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Raises the block's MetadataErrors as JournalUnavailable; the only place that does."""
    try:
        yield
    except MetadataError as error:
        is_away = isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused | OutcomeUnknown)
        kind = MetadataAway if is_away else JournalUnavailable
        raise kind(f"{METADATA_FAILED}: {error}") from error
