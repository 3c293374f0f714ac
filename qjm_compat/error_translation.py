"""Translates errors of ledgers and metadata into errors of the journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledgers import LedgerError, MetadataUnavailable
from metadata.errors import MetadataError, OutcomeUnknown, StoreRefused, StoreUnavailable

from .errors import JournalUnavailable, MetadataAway

METADATA_FAILED = "the metadata store under the journal failed"
"""Prefix of the error message when the metadata fails."""


def as_unavailable(error: LedgerError, doing: str) -> JournalUnavailable:
    """Converts a LedgerError to the journal's error, and sets the LedgerError as its cause."""
    kind = MetadataAway if isinstance(error, MetadataUnavailable) else JournalUnavailable
    caused = kind(f"{doing}: {error}")
    caused.__cause__ = error
    return caused


@contextmanager
def ledger_errors(doing: str) -> Iterator[None]:
    """Re-raises any LedgerError from the `with` block as JournalUnavailable."""
    try:
        yield
    except LedgerError as error:
        raise as_unavailable(error, doing) from error


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Re-raises any MetadataError from the `with` block as JournalUnavailable. This conversion is done nowhere else."""
    try:
        yield
    except MetadataError as error:
        is_away = isinstance(error, StoreUnavailable) and not isinstance(error, StoreRefused | OutcomeUnknown)
        kind = MetadataAway if is_away else JournalUnavailable
        raise kind(f"{METADATA_FAILED}: {error}") from error
