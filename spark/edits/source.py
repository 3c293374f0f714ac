"""`spark.read.format("edits")`: a journal's history as a table, one row per edit.

session.dataSource.register(EditsDataSource)
edits = session.read.format("edits").option("metadata", uri).option("journal", "ns1").load()
edits.where("op = 'OP_DELETE'").select("txid", "timestamp", "path").show()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ledgers import LedgerClient, LedgerError, NoSuchLedger

from ..planning.journal_segments import Segment, finalized_segments
from ..planning.ranges import EntryRange
from ..planning.selection import Extent, Selection
from .fields import COLUMNS
from .options import EditsOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from .reading import SegmentRange


FIRST_TXID = 1
"""The first txid of every journal."""


class EditsDataSource(DataSource):
    """The data source `edits`; see `spark.edits.options.EditsOptions` for its options."""

    @classmethod
    def name(cls) -> str:
        return "edits"

    def schema(self) -> str:
        return ", ".join(f"{name} {column.ddl}" for name, column in COLUMNS.items())

    def reader(self, schema: StructType) -> EditsReader:
        return EditsReader(EditsOptions.of(self.options), schema)


@dataclass(frozen=True)
class EditsPartition(InputPartition):
    """The work of one task."""

    ranges: tuple[SegmentRange, ...]


class EditsReader(DataSourceReader):
    """Plans on the driver, reads on executors. Pickled for them: it holds no connection."""

    def __init__(self, options: EditsOptions, schema: StructType) -> None:
        self._options = options
        self._names = options.columns_of(schema)
        self._access = options.access()

    def partitions(self) -> list[EditsPartition]:
        options = self._options
        with self._access.uri() as uri:
            found = finalized_segments(
                uri,
                options.journal,
                options.acceptors,
                options.from_txid or FIRST_TXID,
                options.to_txid,
                needs_start=options.from_txid is not None,
            )
            segments = asyncio.run(found)
            extents = self._extents(uri, segments)
            tasks = asyncio.run(options.tasks(uri, extents))
        # Given no partitions at all, Spark makes one up.
        return partitions_of(segments, tasks, options) or [EditsPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        assert isinstance(partition, EditsPartition)
        return record_batches(self._access, partition.ranges, self._names)

    def _extents(self, uri: str, segments: Sequence[Segment]) -> list[Extent]:
        ledgers = Selection().of_ledgers(segment.ledger_id for segment in segments)
        try:
            with LedgerClient(uri) as client:
                return ledgers.resolve(client, self._access.password)
        except NoSuchLedger as gone:
            (lost,) = [segment for segment in segments if segment.ledger_id == gone.ledger_id]
            raise LedgerError(
                f"segment {lost.start_txid} of journal {self._options.journal} has lost its ledger "
                f"{gone.ledger_id}, which was purged or deleted: name all acceptors of the journal, or read what "
                f"follows, from_txid={lost.end_txid + 1}"
            ) from gone


def partitions_of(
    segments: Sequence[Segment], tasks: Sequence[Sequence[EntryRange]], options: EditsOptions
) -> list[EditsPartition]:
    """Turns tasks over the segments' ledgers into Spark partitions."""
    from .reading import SegmentRange

    of_ledger = {segment.ledger_id: segment for segment in segments}
    return [
        EditsPartition(
            tuple(
                SegmentRange(
                    of_ledger[entries.ledger_id].start_txid,
                    of_ledger[entries.ledger_id].layout_version,
                    entries,
                    options.from_txid or FIRST_TXID,
                    options.to_txid,
                )
                for entries in task
            )
        )
        for task in tasks
    ]
