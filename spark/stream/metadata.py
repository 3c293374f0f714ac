"""Metadata access of streams on the driver, with retries: a stream survives outages of the store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ledgers import LedgerError, MetadataUnavailable, NotEnoughAnswers
from metadata.errors import BadMetadataUri, StoreRefused, StoreUnavailable

from ..credentials import Access

log = logging.getLogger(__name__)

RETRY_SECONDS_MAX = 30.0
"""How long a query is retried if it must be answered now."""

AWAY_SECONDS_MAX = 600.0
"""How long an idle stream waits for a metadata store that it has reached before."""

T = TypeVar("T")
Work = Callable[[str], Coroutine[Any, Any, T]]
"""A query, given the metadata's URI. It is read-only, and may be repeated."""

AWAY = (StoreUnavailable, MetadataUnavailable, BadMetadataUri, NotEnoughAnswers)
"""Errors of an unavailable store, of bookies that do not report how far a log is confirmed, and of some mistakes too.
"""


class StreamMetadata:
    """The store as one process sees it, and when it was last reached."""

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
        """Runs a query. Returns None if the store is unavailable: retry later.

        Raises MetadataUnavailable once that has lasted AWAY_SECONDS_MAX, or RETRY_SECONDS_MAX if the store was never
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
        before."""
        if isinstance(error, BadMetadataUri):
            return self._reached_at is not None
        return isinstance(error, AWAY) and not isinstance(error.__cause__ or error, StoreRefused)

    def _wait(self, error: Exception, seconds: float) -> None:
        if seconds > AWAY_SECONDS_MAX:
            raise _given_up(error, seconds) from error
        if not self._is_away:
            log.warning("the stream waits up to %d s for its metadata store: %s", AWAY_SECONDS_MAX, error)
        self._is_away = True


def _given_up(error: Exception, seconds: float) -> LedgerError:
    is_bookies = isinstance(error, NotEnoughAnswers)
    who = "bookies have" if is_bookies else "the metadata has"
    return (LedgerError if is_bookies else MetadataUnavailable)(
        f"{who} been unavailable for {seconds:.0f} s: {error}; start the stream again with the same checkpoint "
        "after that, and it continues where it was"
    )
