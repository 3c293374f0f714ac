"""What a task of `format("edits")` does: reads entries of segments, joins them to batches, decodes these."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from ledgers import LedgerError
from ledgers.aio import LedgerClient, ReadHandle
from qjm_compat.batch import Assembler, Batch, header_of
from qjm_compat.edits import EditLogError, slice_batch
from qjm_compat.errors import JournalError

from .access import Access
from .edits_columns import EditColumns
from .planning import EntryRange
from .reading import joined
from .task_client import read_with_client


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Batches that begin in a range of entries of a segment's ledger; of them txids `first_txid` … `last_txid`."""

    segment_txid: int
    layout_version: int
    entries: EntryRange
    first_txid: int
    last_txid: int


def record_batches(
    access: Access, ranges: Sequence[SegmentRange], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Every edit of the ranges once, in order, digests and frame checksums verified. Raises LedgerError."""
    batches = read_with_client(access, lambda client: _batches(client, access.password, ranges, names))
    return joined(batches)


async def _batches(
    client: LedgerClient, password: bytes, ranges: Sequence[SegmentRange], names: Sequence[str]
) -> AsyncGenerator[pa.RecordBatch, None]:
    for wanted in ranges:
        ledger_id = wanted.entries.ledger_id
        reader = await client.open_ledger(ledger_id, recovery=False, password=password)
        columns = EditColumns(wanted.segment_txid, wanted.layout_version, names)
        try:
            async with aclosing(_edits(reader, wanted)) as batches:
                async for records in batches:
                    yield columns.batch(records)
        except (EditLogError, JournalError) as error:
            raise LedgerError(
                f"segment {wanted.segment_txid} of the journal, in ledger {ledger_id}: {error}"
            ) from error


async def _edits(reader: ReadHandle, wanted: SegmentRange) -> AsyncGenerator[bytes, None]:
    """Frames of the batches that begin in the range; the last may end behind it."""
    assembler = Assembler()
    begun = False
    async with aclosing(reader.read(wanted.entries.first_entry)) as entries:
        async for entry in entries:
            if entry.entry_id > wanted.entries.last_entry and assembler.is_between_batches:
                return
            begun = begun or header_of(entry.payload).part == 0
            batch = assembler.feed(entry.payload) if begun else None
            if batch is not None:
                records = _within(batch, wanted)
                if records:
                    yield records


def _within(batch: Batch, wanted: SegmentRange) -> bytes:
    first, last = max(batch.first_txid, wanted.first_txid), min(batch.last_txid, wanted.last_txid)
    if last < first:
        return b""
    if (first, last) == (batch.first_txid, batch.last_txid):
        return batch.records
    return bytes(slice_batch(batch.records, first, last))
