"""Detects metadata that was rolled back or is missing, for commands that need the metadata or would otherwise wait
forever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ledgers.errors import LedgerError, NoSuchLedger, NoSuchLog, NotEnoughBookies
from metadata import opened_store
from metadata.backup import hold
from metadata.errors import MetadataError, MetadataRestored

from .cluster_survey import check_is_cluster


async def check_not_rolled_back(metadata_uris: Iterable[str], how_to_go_on: str) -> None:
    """Raises LedgerError if the metadata at one of these URIs is on hold: it was restored, rebuilt or rolled back, and
    has not been accepted. A store that does not answer is ignored, because the caller waits for it."""
    for uri in sorted(set(metadata_uris)):
        try:
            async with opened_store(uri) as store:
                await hold.check_accepted(store)
        except MetadataRestored as error:
            raise LedgerError(f"{error}; {how_to_go_on}") from error
        except MetadataError:  # an outage, which does not show that the metadata was rolled back
            continue


def rollback_check(metadata_uri: str) -> Callable[[str], None]:
    """Returns `check_not_rolled_back` for one store, for commands without an event loop."""
    return lambda how_to_go_on: asyncio.run(check_not_rolled_back([metadata_uri], how_to_go_on))


@contextmanager
def explain_missing_cluster(metadata_uri: str) -> Iterator[None]:
    """If there is no cluster at all, replaces an error that the block raises about a missing ledger, log or bookie."""
    try:
        yield
    except (NoSuchLedger, NoSuchLog, NotEnoughBookies) as error:
        try:
            check_is_cluster(metadata_uri)
        except MetadataError:
            raise error from None
        raise
