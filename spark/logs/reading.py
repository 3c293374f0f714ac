"""The task of `format("log")`: reads its ranges of segments from the bookies, in order, and yields record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ledgers.aio import LedgerClient, ReadHandle

from ..executor_access import ExecutorAccess
from ..executors.planned_ledgers import open_planned
from ..executors.range_reader import PageColumns, read_ranges
from ..planning.ranges import LedgerRange
from .columns import LogColumns
from .segment_parts import LogRange


@dataclass(frozen=True, slots=True)
class _OfSegment:
    """Entries of a segment, read as log records."""

    wanted: LogRange
    names: Sequence[str]

    @property
    def entries(self) -> LedgerRange:
        return self.wanted.entries

    async def open(self, client: LedgerClient, password: bytes) -> tuple[ReadHandle, PageColumns]:
        """Opens the ledger, which need not be closed: the entries were confirmed when the job was planned."""
        wanted = self.wanted
        reader = await open_planned(client, wanted.entries.ledger_id, password)
        reader.is_confirmed(wanted.entries.last_entry)
        return reader, LogColumns(wanted.log, wanted.segment_start, wanted.times, self.names)


def record_batches(
    access: ExecutorAccess, ranges: Sequence[LogRange], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields every record in the ranges once, in order. Digests are verified; see `read_ranges`.

    Also raises RecordUnreadable for an entry that does not contain a log record.
    """
    return read_ranges(access, [_OfSegment(one, names) for one in ranges])
