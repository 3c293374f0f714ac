"""`spark.read.format("log")`: a log, or all logs of a set, as a table, one row for each record.

session.dataSource.register(LogDataSource)
orders = session.read.format("log").option("metadata", uri).option("log", "orders").load()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from ledgers import LedgerError

from ..planning.partition import PlannedReader
from ..stream.old_pyspark import NoStreams, has_no_streams
from .options import LogOptions
from .segment_parts import LogRange, describe_deleted, extents_of, parts_of_batch, tasks_of

if TYPE_CHECKING:
    import pyarrow as pa


class LogDataSource(DataSource):
    """The data source `log`; see `spark.logs.options.LogOptions` for its options."""

    @classmethod
    def name(cls) -> str:
        return "log"

    def schema(self) -> str:
        return LogOptions.of(self.options).schema

    def reader(self, schema: StructType) -> LogBatchReader:
        return LogBatchReader(LogOptions.of(self.options).for_batch(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if has_no_streams():
            return NoStreams()
        from .stream import LogStream

        return LogStream(LogOptions.of(self.options).for_stream(), schema)


class LogBatchReader(PlannedReader[LogOptions, LogRange]):
    def _tasks(self, uri: str) -> Sequence[tuple[LogRange, ...]]:
        return asyncio.run(self._plan(uri))

    async def _plan(self, uri: str) -> Sequence[tuple[LogRange, ...]]:
        parts = await parts_of_batch(uri, self._options, self._access.password)
        extents, gone = await extents_of(uri, parts, self._access.password)
        if gone:
            raise LedgerError(f"{describe_deleted(gone)}; load it again to read the remaining records")
        return await tasks_of(uri, self._options, extents, parts)

    def _record_batches(self, ranges: Sequence[LogRange]) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        return record_batches(self._access, ranges, self._names)
