"""The batch reader of closed ledgers: planned on the driver, read by tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ledgers import LedgerClient

from ..credentials import Access
from ..planning.journal_segments import finalized_segments
from ..planning.options import LedgerOptions
from ..planning.partition import LedgerPartition

if TYPE_CHECKING:
    import pyarrow as pa


class LedgerReader(DataSourceReader):
    """Plans on the driver, reads on executors. Pickled for them: it holds no connection."""

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        self._options = options
        self._names = options.columns_of(schema)
        self._access: Access = options.access()

    def partitions(self) -> list[LedgerPartition]:
        options = self._options
        with self._access.uri() as uri:
            selection = options.selection
            if options.journal is not None:
                found = finalized_segments(uri, options.journal, options.acceptors)
                selection = selection.of_ledgers([s.ledger_id for s in asyncio.run(found)])
            with LedgerClient(uri) as client:
                extents = selection.resolve(client, self._access.password)
            tasks = asyncio.run(options.tasks(uri, extents))
        # Given no partitions at all, Spark makes one up.
        return [LedgerPartition(ranges) for ranges in tasks or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ..executors.reading import record_batches

        assert isinstance(partition, LedgerPartition)
        return record_batches(self._access, partition.ranges, self._names)
