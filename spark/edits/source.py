"""`spark.read.format("edits")`: a journal's history as a table, one row per edit.

session.dataSource.register(EditsDataSource)
edits = session.read.format("edits").option("metadata", uri).option("journal", "ns1").load()
edits.where("op = 'OP_DELETE'").select("txid", "timestamp", "path").show()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ledgers import LedgerClient, LedgerError, NoSuchLedger

from ..planning.journal_segments import JournalSegment, finalized_segments
from ..planning.partition import PlannedReader
from ..planning.ranges import LedgerRange
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


class EditsReader(PlannedReader[EditsOptions, "SegmentRange"]):
    def _tasks(self, uri: str) -> Sequence[tuple[SegmentRange, ...]]:
        options = self._options
        found = finalized_segments(
            uri,
            options.journal,
            options.acceptors,
            options.from_txid or FIRST_TXID,
            options.to_txid,
            needs_start=options.from_txid is not None,
        )
        segments = asyncio.run(found)
        tasks = asyncio.run(options.tasks(uri, self._extents(uri, segments)))
        return [segment_ranges(segments, task, options) for task in tasks]

    def _record_batches(self, ranges: Sequence[SegmentRange]) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        return record_batches(self._access, ranges, self._names)

    def _extents(self, uri: str, segments: Sequence[JournalSegment]) -> list[Extent]:
        ledgers = Selection().of_ledgers(segment.ledger_id for segment in segments)
        try:
            with LedgerClient(uri) as client:
                return ledgers.resolve(client, self._access.password)
        except NoSuchLedger as gone:
            (lost,) = [segment for segment in segments if segment.ledger_id == gone.ledger_id]
            raise LedgerError(
                f"segment {lost.start_txid} of journal {self._options.journal} has lost its ledger "
                f"{gone.ledger_id}, which was purged or deleted: name all acceptors of the journal, or read the "
                f"edits after this segment, with from_txid={lost.end_txid + 1}"
            ) from gone


def segment_ranges(
    segments: Sequence[JournalSegment], task: Sequence[LedgerRange], options: EditsOptions
) -> tuple[SegmentRange, ...]:
    """Returns the parts of the journal that correspond to a task's ranges of the segments' ledgers."""
    from .reading import SegmentRange

    of_ledger = {segment.ledger_id: segment for segment in segments}
    first, last = options.from_txid or FIRST_TXID, options.to_txid
    return tuple(
        SegmentRange(segment.start_txid, segment.layout_version, entries, first, last)
        for segment, entries in ((of_ledger[entries.ledger_id], entries) for entries in task)
    )
