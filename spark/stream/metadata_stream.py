"""`spark.readStream.format("ledger")`: ledgers as they are closed, or the segments of a journal as they are finalized.

Each micro-batch consists of complete ledgers, each delivered once, in order of ids if they are closed in that order. A
batch can be reproduced from its offsets alone, so a restart from the checkpoint repeats exactly the required batches.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ledgers import LedgerError

from ..planning.ledger_records import records_of
from ..planning.options import LedgerOptions, StreamOptions
from ..planning.partition import TaskPartition
from ..planning.ranges import LedgerRange
from .losses import GO_ON, describe_lost

if TYPE_CHECKING:
    import pyarrow as pa
import asyncio
import time
from collections.abc import Callable, Coroutine

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ledgers import MetadataUnavailable, NotEnoughAnswers
from metadata.errors import BadMetadataUri, StoreRefused, StoreUnavailable

from ..executor_access import ExecutorAccess

log = logging.getLogger(__name__)

RETRY_SECONDS_MAX = 30.0
"""Maximum time for which a query is retried if it must be answered now."""

AWAY_SECONDS_MAX = 600.0
"""Maximum time for which an idle stream waits for a metadata store that it has reached before."""

T = TypeVar("T")
Work = Callable[[str], Coroutine[Any, Any, T]]
"""A query, which is called with the metadata URI. It is read-only, and may be repeated."""

AWAY = (StoreUnavailable, MetadataUnavailable, BadMetadataUri, NotEnoughAnswers)
"""Errors raised if the store is unavailable, or if bookies do not report how far a log is confirmed. Some configuration
mistakes raise the same errors."""


class StreamMetadata:
    """One process's access to the metadata store, and the time when the store was last reached."""

    def __init__(self, access: ExecutorAccess) -> None:
        self._access = access
        self._reached_at: float | None = None
        self._is_away = False

    def ask(self, work: Work[T]) -> T:
        """Runs a query. Raises MetadataUnavailable if there is no answer within RETRY_SECONDS_MAX."""
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
        """Runs a query. Returns None if the store is unavailable; the caller then retries later.

        Raises MetadataUnavailable once the store has been unavailable for AWAY_SECONDS_MAX, or for RETRY_SECONDS_MAX if
        it was never reached.
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
        """Returns whether a retry may help. A file that cannot be opened indicates a mistake in the URI, unless it
        could be opened before."""
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
        "after that, and it continues where it stopped"
    )


class MetadataStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Base class of all streams: access to the metadata, waiting while it is unavailable, and handling of data loss.

    One object serves a query from start to end. It caches data only to save work: the offsets contain all necessary
    state.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._access = options.access()
        self._fails_on_data_loss = options.fails_on_data_loss
        self._metadata = StreamMetadata(self._access)
        self._available_now = False

    def prepareForTriggerAvailableNow(self) -> None:
        """Limits the stream to the data that the next `latestOffset` finds, split into as many batches as the rate
        limit requires."""
        self._available_now = True

    @abstractmethod
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the offset after the next batch; `start` if there is nothing to read.

        Also returns `start` while the metadata is unavailable, for up to AWAY_SECONDS_MAX; after that, raises
        MetadataUnavailable.
        """

    def _look(self, work: Work[T]) -> T | None:
        """Queries the metadata. Returns None if it is unavailable and can be queried again later."""
        return self._metadata.ask(work) if self._available_now else self._metadata.ask_or_wait(work)

    def _go_on_without(self, loss: str) -> None:
        """Warns of a loss if failOnDataLoss is false; otherwise raises LedgerError."""
        if self._fails_on_data_loss is not False:
            raise LedgerError(f"{loss}; {GO_ON}")
        log.warning("the stream continues without the lost data: %s", loss)


class LedgerStream(MetadataStream):
    """Base class of the streams of whole ledgers: tasks, reading, and the rate limit `max_bytes_per_trigger`."""

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options)
        self._options = options
        self._names = options.columns_of(schema)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ..executors.range_reader import record_batches

        assert isinstance(partition, TaskPartition)
        return record_batches(self._access, partition.ranges, self._names)

    def _tasks(self, ledger_ids: Iterable[int]) -> list[TaskPartition[LedgerRange]]:
        """Plans tasks for these ledgers, in this order. Raises LedgerError if one no longer exists, unless
        failOnDataLoss is false."""
        wanted = list(ledger_ids)
        found = self._metadata.ask(partial(records_of, ledger_ids=wanted))
        if gone := [i for i in wanted if i not in found]:
            self._go_on_without(describe_lost(gone))
        extents = [one for i in wanted if i in found for one in self._options.selection.extents(found[i])]
        tasks = self._metadata.ask(partial(self._options.tasks, extents=extents))
        return [TaskPartition(ranges) for ranges in tasks]


def how_many_fit(lengths: Sequence[int], limit: ReadLimit) -> int:
    """Returns how many of these, in order, fit within the limit; at least one, if there are any."""
    if not isinstance(limit, ReadMaxBytes):
        return len(lengths)
    fitting = sum(1 for total in accumulate(lengths) if total <= limit.max_bytes)
    return min(len(lengths), max(1, fitting))
