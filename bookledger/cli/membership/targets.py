"""Ledgers and logs as named on the command line, and clients of their cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ledgers import LedgerClient, LedgerError, Log

from ..config.clients import client_config
from ..options import (
    ledger_argument,
    log_argument,
    log_password_option,
    made_of,
    metadata_option,
    password_option,
)
from .remedies import remedies
from .rollback_check import explain_missing_cluster


@contextmanager
def connected(metadata_uri: str, *, deleting: bool = False, **more: Any) -> Iterator[LedgerClient]:
    """Yields a client, configured by `[client]` and `more`. Errors raised inside the block suggest a remedy, or report
    that there is no cluster."""
    with (
        remedies(metadata_uri, deleting=deleting),
        explain_missing_cluster(metadata_uri),
        LedgerClient(metadata_uri, config=client_config(**more)) as client,
    ):
        yield client


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """A ledger that is named on the command line."""

    metadata_uri: str
    ledger_id: int
    password: bytes


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A log, or a set of logs, that is named on the command line."""

    metadata_uri: str
    name: str
    password: bytes

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Log]:
        """Opens the log inside the block. Operations that the log refuses become errors of the command."""
        with connected(self.metadata_uri) as client:
            found = client.log(self.name, create=create, password=self.password)
            try:
                yield found
            except ValueError as error:
                raise LedgerError(str(error)) from None


ledger_place = made_of("place", LedgerPlace, metadata_option, password_option, ledger_argument)
"""Adds LEDGER, --metadata and --password-file; the command gets them as `place`."""

log_place = made_of("place", LogPlace, metadata_option, log_password_option, log_argument)
"""Adds LOG, --metadata and --password-file; the command gets them as `place`."""
