"""What fails under a journal, in its ledgers or its metadata, as the journal's own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledgers import LedgerError
from metadata.errors import MetadataError

from .errors import JournalUnavailable


@contextmanager
def ledger_errors(doing: str) -> Iterator[None]:
    """The one place where the ledgers' errors become the journal's."""
    try:
        yield
    except LedgerError as error:
        raise JournalUnavailable(f"{doing}: {error}") from error


@contextmanager
def metadata_errors() -> Iterator[None]:
    """The one place where the metadata's errors become the journal's."""
    try:
        yield
    except MetadataError as error:
        raise JournalUnavailable(f"the metadata store under the journal failed: {error}") from error
