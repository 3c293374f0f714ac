"""Translates errors of ledgers and metadata into the journal's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledgers import LedgerError
from metadata.errors import MetadataError

from .errors import JournalUnavailable

METADATA_FAILED = "the metadata store under the journal failed"
"""In front of what the metadata said."""


@contextmanager
def ledger_errors(doing: str) -> Iterator[None]:
    """Raises the block's LedgerErrors as JournalUnavailable; the one place that does."""
    try:
        yield
    except LedgerError as error:
        raise JournalUnavailable(f"{doing}: {error}") from error


@contextmanager
def metadata_errors() -> Iterator[None]:
    """Raises the block's MetadataErrors as JournalUnavailable; the one place that does."""
    try:
        yield
    except MetadataError as error:
        raise JournalUnavailable(f"{METADATA_FAILED}: {error}") from error
