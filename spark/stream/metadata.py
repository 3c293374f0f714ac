"""Metadata access of streams on the driver, with retries: a stream survives outages of the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ledgers import LedgerRecord, MetadataUnavailable
from metadata import opened_store
from metadata.backup import hold
from metadata.errors import BadMetadataUri, MetadataRestored, StoreRefused, StoreUnavailable
from metadata.records.ledger_store import LedgerStore
from metadata.records.unreadable import refuse
from metadata.store import MetadataStore

from ..credentials import Access
from ..planning.selection import LOOKED_UP_MAX

log = logging.getLogger(__name__)

RETRY_SECONDS_MAX = 30.0
"""How long a query that must be answered now is retried."""

AWAY_SECONDS_MAX = 600.0
"""How long an idle stream waits for a metadata store that it has reached before."""

T = TypeVar("T")
Work = Callable[[str], Coroutine[Any, Any, T]]
"""A query, given the metadata's URI. It is read-only, and may be repeated."""

AWAY = (StoreUnavailable, MetadataUnavailable, BadMetadataUri)
"""Errors of an unavailable store, and of some mistakes too."""


class StreamMetadata:
    """The store as one process sees it: when it was last reached."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._reached_at: float | None = None
        self._is_away = False

    def ask(self, work: Work[T]) -> T:
        """Runs a query. Raises MetadataUnavailable after RETRY_SECONDS_MAX without an answer."""
        retrying = Retrying(
            retry=retry_if_exception(self._may_come_back),
            stop=stop_after_delay(RETRY_SECONDS_MAX),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        began_at = time.monotonic()
        try:
            found: T = retrying(self._ask, work)
            return found
        except AWAY as error:
            if not self._may_come_back(error):
                raise
            raise _given_up(error, time.monotonic() - began_at) from error

    def ask_or_wait(self, work: Work[T]) -> T | None:
        """Runs a query; None if the store is away: retry later.

        Raises MetadataUnavailable once that has lasted AWAY_SECONDS_MAX; RETRY_SECONDS_MAX, if it was never
        reached.
        """
        if self._reached_at is None:
            return self.ask(work)
        try:
            return self._ask(work)
        except AWAY as error:
            if not self._may_come_back(error):
                raise
            self._wait(error, time.monotonic() - self._reached_at)
            return None

    def _ask(self, work: Work[T]) -> T:
        with self._access.uri() as uri:
            found = asyncio.run(work(uri))
        self._reached_at, self._is_away = time.monotonic(), False
        return found

    def _may_come_back(self, error: BaseException) -> bool:
        """Whether a retry may help. A file that cannot be opened is a mistake in the URI, unless it could be opened
        before.
        """
        if isinstance(error, BadMetadataUri):
            return self._reached_at is not None
        return isinstance(error, AWAY) and not isinstance(error.__cause__ or error, StoreRefused)

    def _wait(self, error: Exception, seconds: float) -> None:
        if seconds > AWAY_SECONDS_MAX:
            raise _given_up(error, seconds) from error
        if not self._is_away:
            log.warning("the stream waits up to %d s for its metadata store: %s", AWAY_SECONDS_MAX, error)
        self._is_away = True


def _given_up(error: Exception, seconds: float) -> MetadataUnavailable:
    return MetadataUnavailable(
        f"the metadata has been away for {seconds:.0f} s: {error}; start the stream again once it is back, "
        "with the same checkpoint, and it goes on where it was"
    )


async def records_of(uri: str, ledger_ids: Collection[int]) -> dict[int, LedgerRecord]:
    """The records of those of these ledgers that exist.

    Raises MetadataUnavailable where one is missing, and the metadata is an older copy that may not know it.
    """
    if not ledger_ids:
        return {}
    async with opened_store(uri) as store:
        ledgers = LedgerStore(store)
        found = await _found_of(ledgers, ledger_ids)
        if missing := set(ledger_ids) - found.keys():
            await _check_is_known(store, min(missing))
        return found


async def _check_is_known(store: MetadataStore, ledger_id: int) -> None:
    try:
        await hold.check_accepted(store)
    except MetadataRestored as error:
        raise MetadataUnavailable(
            f"it is not known whether there is a ledger {ledger_id}: {error}"
        ) from error


async def _found_of(ledgers: LedgerStore, ledger_ids: Collection[int]) -> dict[int, LedgerRecord]:
    if len(ledger_ids) > LOOKED_UP_MAX:
        return await _picked_out(ledgers, frozenset(ledger_ids))
    found = await asyncio.gather(*map(ledgers.read, ledger_ids))
    return {one.record.ledger_id: one.record for one in found if one is not None}


async def _picked_out(ledgers: LedgerStore, wanted: frozenset[int]) -> dict[int, LedgerRecord]:
    """Finds them in one listing."""
    found = {}
    last = max(wanted)
    async for one in ledgers.list(min(wanted), on_unreadable=refuse):
        if one.record.ledger_id > last:
            break
        if one.record.ledger_id in wanted:
            found[one.record.ledger_id] = one.record
    return found
