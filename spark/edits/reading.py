"""The task of `format("edits")`: reads entries of segments, reassembles batches, and converts them to rows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from ledgers import LedgerError, NoSuchLedger
from ledgers.aio import LedgerClient, ReadHandle
from qjm_compat.batch import Assembler, Batch, header_of
from qjm_compat.edits import OPS, EditLogError, EditOp, op_to_json, slice_batch
from qjm_compat.edits.op_frames import Buffer
from qjm_compat.errors import JournalError

from ..executor_access import ExecutorAccess
from ..executors.planned_ledgers import open_closed, planned
from ..executors.range_reader import joined
from ..executors.task_client import read_with_client
from ..planning.ranges import LedgerRange
from .fields import COLUMNS, Getter, getter
from .frames import Frames, slices

OF_FRAMES = frozenset({"txid", "op", "segment", "layout_version", "body"})
"""Columns that need only the frames, so no op has to be decoded."""


class EditColumns:
    """Builds record batches of the selected columns for the edits of one segment."""

    def __init__(self, segment_txid: int, layout_version: int, names: Sequence[str]) -> None:
        self.schema = pa.schema([(name, COLUMNS[name].arrow) for name in names])
        self._segment_txid = segment_txid
        self._layout_version = layout_version
        self._names = names
        self._is_decoded = not OF_FRAMES.issuperset(names)
        self._getters: dict[tuple[type[EditOp], str], Getter] = {}

    def batch(self, frames: Frames) -> pa.RecordBatch:
        """Returns one row per edit.

        Raises EditLogError, which names the transaction, if a column needs an op that cannot be decoded.
        """
        ops = frames.decoded(self._layout_version) if self._is_decoded else []
        columns = [self._column(name, frames, ops) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, name: str, frames: Frames, ops: list[EditOp]) -> pa.Array:
        kind = COLUMNS[name].arrow
        match name:
            case "txid":
                return pa.array(frames.txids, kind)
            case "op":
                return pa.array(_op_names(frames), kind)
            case "segment":
                return pa.array([self._segment_txid] * len(frames.txids), kind)
            case "layout_version":
                return pa.array([self._layout_version] * len(frames.txids), kind)
            case "fields":
                return pa.array([json.dumps(op_to_json(op), separators=(",", ":")) for op in ops], kind)
            case "body":
                return _bodies(frames)
        return pa.array([self._getter(type(op), name)(op) for op in ops], kind)

    def _getter(self, cls: type[EditOp], name: str) -> Getter:
        known = self._getters.get((cls, name))
        if known is None:
            known = self._getters[cls, name] = getter(cls, name, self._layout_version)
        return known


def _op_names(frames: Frames) -> list[str]:
    """Returns Hadoop's names of the ops. An unknown code raises an error, because a missing row or an invented name
    would go unnoticed."""
    for index, opcode in enumerate(frames.opcodes):
        if opcode not in OPS:
            raise frames.undecodable(index, "the name of the op is unknown")
    return [OPS[opcode].name for opcode in frames.opcodes]


def _bodies(frames: Frames) -> pa.Array:
    """Returns the raw frames without copying them."""
    offsets = pa.array([*frames.starts, len(frames.records)], pa.int32())
    buffers = [None, offsets.buffers()[1], pa.py_buffer(frames.records)]
    return pa.Array.from_buffers(pa.binary(), len(frames.starts), buffers)


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
