"""`spark.readStream.format("ledger")`: ledgers as they close, or the segments of a journal as they are finalized.

Each micro-batch is whole ledgers, each delivered once, in order of ids if they close in that order. A batch is
reproduced from its offsets alone, so a restart from the checkpoint repeats exactly the required batches.
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
from ..planning.ranges import EntryRange
from .losses import GO_ON, lost_told
from .metadata import StreamMetadata, Work

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

T = TypeVar("T")


class MetadataStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Base of all streams: access to the metadata, waiting while it is unavailable, and handling of data loss.

    One object serves a query from start to end, and caches to save work. The offsets contain all necessary state.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._access = options.access()
        self._fails_on_data_loss = options.fails_on_data_loss
        self._metadata = StreamMetadata(self._access)
        self._available_now = False

    def prepareForTriggerAvailableNow(self) -> None:
        """Limits the stream to the data that the next `latestOffset` finds, in as many batches as the rate limit
        requires."""
        self._available_now = True

    @abstractmethod
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset after the next batch; `start` if there is nothing to read.

        Also returns `start` while the metadata is unavailable, for up to AWAY_SECONDS_MAX; then raises
        MetadataUnavailable.
        """

    def _look(self, work: Work[T]) -> T | None:
        """Queries the metadata. Returns None if it is unavailable and can be queried again later."""
        return self._metadata.ask(work) if self._available_now else self._metadata.ask_or_wait(work)

    def _go_on_without(self, loss: str) -> None:
        """Warns of a loss if failOnDataLoss is false; otherwise raises LedgerError."""
        if self._fails_on_data_loss is not False:
            raise LedgerError(f"{loss}; {GO_ON}")
        log.warning("the stream goes on without the lost data: %s", loss)


class LedgerStream(MetadataStream):
    """Base of the streams of whole ledgers: tasks, reading, and the rate limit `max_bytes_per_trigger`."""

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options)
        self._options = options
        self._names = options.columns_of(schema)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ..executors.reading import record_batches

        assert isinstance(partition, TaskPartition)
        return record_batches(self._access, partition.ranges, self._names)

    def _tasks(self, ledger_ids: Iterable[int]) -> list[TaskPartition[EntryRange]]:
        """Plans tasks for these ledgers, in this order. Raises LedgerError if one is gone, unless failOnDataLoss is
        false."""
        wanted = list(ledger_ids)
        found = self._metadata.ask(partial(records_of, ledger_ids=wanted))
        if gone := [i for i in wanted if i not in found]:
            self._go_on_without(lost_told(gone))
        extents = [one for i in wanted if i in found for one in self._options.selection.extents(found[i])]
        tasks = self._metadata.ask(partial(self._options.tasks, extents=extents))
        return [TaskPartition(ranges) for ranges in tasks]


def how_many_fit(lengths: Sequence[int], limit: ReadLimit) -> int:
    """How many of these, in order, fit the limit; at least one."""
    if not isinstance(limit, ReadMaxBytes):
        return len(lengths)
    fitting = sum(1 for total in accumulate(lengths) if total <= limit.max_bytes)
    return min(len(lengths), max(1, fitting))
