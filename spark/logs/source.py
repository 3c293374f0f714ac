"""`spark.read.format("log")`: a log, or all logs of a set, as a table, one row for each record.

session.dataSource.register(LogDataSource)
orders = session.read.format("log").option("metadata", uri).option("log", "orders").load()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ledgers import LedgerError

from ..stream.old_pyspark import NoStreams, has_no_streams
from .options import LogOptions
from .parts import LogPartition, extents_of, gone_told, partitions_of, parts_of_batch

if TYPE_CHECKING:
    import pyarrow as pa


class LogDataSource(DataSource):
    """The data source `log`; see `spark.logs.options.LogOptions` for its options."""

    @classmethod
    def name(cls) -> str:
        return "log"

    def schema(self) -> str:
        return LogOptions.of(self.options).schema

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(LogOptions.of(self.options).for_batch(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if has_no_streams():
            return NoStreams()
        from .stream import LogStream

        return LogStream(LogOptions.of(self.options).for_stream(), schema)


class LogReader(DataSourceReader):
    """Plans on the driver, reads on executors. Pickled for them: it holds no connection."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options = options
        self._names = options.columns_of(schema)
        self._access = options.access()

    def partitions(self) -> list[LogPartition]:
        with self._access.uri() as uri:
            found = asyncio.run(self._plan(uri))
        # Given no partitions at all, Spark makes one up.
        return found or [LogPartition(())]

    async def _plan(self, uri: str) -> list[LogPartition]:
        parts = await parts_of_batch(uri, self._options, self._access.password)
        extents, gone = await extents_of(uri, parts, self._access.password)
        if gone:
            raise LedgerError(f"{gone_told(gone)}; load it again to read what is left")
        return await partitions_of(uri, self._options, extents, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        assert isinstance(partition, LogPartition)
        return record_batches(self._access, partition.ranges, self._names)
