"""Builds Arrow record batches of edits: columns from their fields, all fields as JSON, and the raw frames."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from qjm_compat.edits import OPS, EditOp, op_to_json

from .fields import COLUMNS, Getter, getter
from .frames import Frames

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
