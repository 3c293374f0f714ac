"""The task of `format("edits")`: reads entries of segments, reassembles batches, and converts them to rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from ledgers import LedgerError, NoSuchLedger
from ledgers.aio import LedgerClient, ReadHandle
from qjm_compat.batch import Assembler, Batch, header_of
from qjm_compat.edits import EditLogError, slice_batch
from qjm_compat.edits.op_frames import Buffer
from qjm_compat.errors import JournalError

from ..executor_access import ExecutorAccess
from ..executors.planned_ledgers import open_closed, planned
from ..executors.range_reader import joined
from ..executors.task_client import read_with_client
from ..planning.ranges import LedgerRange
from .columns import EditColumns
from .frames import slices


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """The batches that begin in a range of entries of a segment's ledger, limited to the edits with txids `first_txid`
    … `last_txid`."""

    segment_txid: int
    layout_version: int
    entries: LedgerRange
    first_txid: int
    last_txid: int


def record_batches(
    access: ExecutorAccess, ranges: Sequence[SegmentRange], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields every edit in the ranges once, in order. Digests and frame checksums are verified.

    Raises LedgerError, which names the segment and its ledger, and either the transaction that cannot be decoded or
    each replica's answer. Nothing is skipped.
    """
    batches = read_with_client(access, lambda client: _batches(client, access.password, ranges, names))
    return joined(batches)


async def _batches(
    client: LedgerClient, password: bytes, ranges: Sequence[SegmentRange], names: Sequence[str]
) -> AsyncGenerator[pa.RecordBatch, None]:
    for wanted in ranges:
        try:
            async with aclosing(_of_range(client, password, wanted, names)) as batches:
                async for batch in batches:
                    yield batch
        except (LedgerError, EditLogError, JournalError) as error:
            raise LedgerError(_with_place(error, wanted)) from error


def _with_place(error: Exception, wanted: SegmentRange) -> str:
    place = f"segment {wanted.segment_txid} of the journal, in ledger {wanted.entries.ledger_id}"
    if isinstance(error.__cause__, NoSuchLedger):
        return f"{place}: {error}; if the journal was purged, load it again to read its remaining edits"
    return f"{place}: {error}"


async def _of_range(
    client: LedgerClient, password: bytes, wanted: SegmentRange, names: Sequence[str]
) -> AsyncGenerator[pa.RecordBatch, None]:
    ledger_id = wanted.entries.ledger_id
    reader = await open_closed(client, ledger_id, password)
    columns = EditColumns(wanted.segment_txid, wanted.layout_version, names)
    with planned(ledger_id):
        async with aclosing(_edits(reader, wanted)) as batches:
            async for records in batches:
                for frames in slices(records):
                    yield columns.batch(frames)


async def _edits(reader: ReadHandle, wanted: SegmentRange) -> AsyncGenerator[Buffer, None]:
    """Yields the frames of the batches that begin in the range; the last batch may end beyond it."""
    assembler = Assembler()
    begun = False
    async with aclosing(reader.read(wanted.entries.first_entry)) as entries:
        async for entry in entries:
            is_first = header_of(entry.payload).part == 0
            if entry.entry_id > wanted.entries.last_entry and (is_first or assembler.is_between_batches):
                return  # the next task reads the batch that begins here, even if the previous batch was never completed
            begun = begun or is_first
            batch = assembler.feed(entry.payload) if begun else None
            if batch is not None and (records := _within(batch, wanted)):
                yield records


def _within(batch: Batch, wanted: SegmentRange) -> Buffer:
    first, last = max(batch.first_txid, wanted.first_txid), min(batch.last_txid, wanted.last_txid)
    if last < first:
        return b""
    if (first, last) == (batch.first_txid, batch.last_txid):
        return batch.records
    return slice_batch(batch.records, first, last)
