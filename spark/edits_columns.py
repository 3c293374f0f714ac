"""The columns of HDFS edits in Spark: the fields that are asked for most, all of them as JSON, and the raw frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from qjm_compat.edits import EditOp, frame_offsets, iter_ops, op_to_json
from qjm_compat.edits.ops.files import NO_CALL


@dataclass(frozen=True, slots=True)
class Column:
    """Its type in Spark's words and in Arrow's, and the fields of ops that fill it: the first that an op has."""

    ddl: str
    arrow: pa.DataType
    fields: tuple[str, ...] = ()


LONG, INT, STRING = pa.int64(), pa.int32(), pa.string()

COLUMNS: dict[str, Column] = {
    "txid": Column("bigint", LONG, ("txid",)),
    "op": Column("string", STRING),
    "path": Column("string", STRING, ("path", "source", "target", "snapshot_root")),
    "target": Column("string", STRING, ("target",)),
    "timestamp": Column("timestamp", pa.timestamp("us", tz="UTC"), ("timestamp_ms", "mtime_ms")),
    "username": Column("string", STRING, ("permission.user", "user")),
    "groupname": Column("string", STRING, ("permission.group", "group")),
    "mode": Column("int", INT, ("permission.mode", "mode")),
    "inode_id": Column("bigint", LONG, ("inode_id",)),
    "replication": Column("int", INT, ("replication",)),
    "block_size": Column("bigint", LONG, ("block_size",)),
    "client_name": Column("string", STRING, ("client_name",)),
    "client_machine": Column("string", STRING, ("client_machine",)),
    "rpc_client_id": Column("string", STRING, ("rpc_client_id",)),
    "rpc_call_id": Column("int", INT, ("rpc_call_id",)),
    "segment": Column("bigint", LONG),
    "layout_version": Column("int", INT),
    "fields": Column("string", STRING),
    "body": Column("binary", pa.binary()),
}
"""Every column of `format("edits")`. What an op has no field for is null."""

MILLIS_MAX = (2**63 - 1) // 1000
"""The latest time that a timestamp can say; a log may hold any number."""

Getter = Callable[[EditOp], Any]


class EditColumns:
    """Makes record batches of the wanted columns for the batches of one segment."""

    def __init__(self, segment_txid: int, layout_version: int, names: Sequence[str]) -> None:
        self.schema = pa.schema([(name, COLUMNS[name].arrow) for name in names])
        self._segment_txid = segment_txid
        self._layout_version = layout_version
        self._names = names
        self._getters: dict[tuple[type[EditOp], str], Getter] = {}

    def batch(self, records: bytes) -> pa.RecordBatch:
        """One row for each op. Raises EditLogError for frames that cannot be decoded."""
        ops = list(iter_ops(records, self._layout_version))
        columns = [self._column(name, ops, records) for name in self._names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, name: str, ops: list[EditOp], records: bytes) -> pa.Array:
        kind = COLUMNS[name].arrow
        match name:
            case "op":
                return pa.array([op.name for op in ops], kind)
            case "segment":
                return pa.array([self._segment_txid] * len(ops), kind)
            case "layout_version":
                return pa.array([self._layout_version] * len(ops), kind)
            case "fields":
                return pa.array([json.dumps(op_to_json(op), separators=(",", ":")) for op in ops], kind)
            case "body":
                return _frames(records)
        return pa.array([self._getter(type(op), name)(op) for op in ops], kind)

    def _getter(self, cls: type[EditOp], name: str) -> Getter:
        known = self._getters.get((cls, name))
        if known is None:
            known = self._getters[cls, name] = _getter(cls, COLUMNS[name].fields)
        return known


def _getter(cls: type[EditOp], fields: Sequence[str]) -> Getter:
    """What reads a column from ops of one class."""
    for field in fields:
        head, _, inner = field.partition(".")
        if head not in cls.__dataclass_fields__:
            continue
        if inner:
            return lambda op: _plain(getattr(getattr(op, head), inner))
        if head.endswith("_ms"):
            return lambda op: _micros(getattr(op, head))
        if head == "rpc_call_id":
            return lambda op: None if getattr(op, head) == NO_CALL else getattr(op, head)
        return lambda op: _plain(getattr(op, head))
    return lambda _: None


def _micros(ms: int) -> int | None:
    return 1000 * ms if abs(ms) <= MILLIS_MAX else None


def _plain(value: Any) -> Any:
    """Empty names and ids are how the log says that there is none: joined, they would all be the same one."""
    if isinstance(value, bytes):
        return value.hex() or None
    return _text(value) or None if isinstance(value, str) else value


def _text(value: str) -> str:
    """As UTF-8 can say it: Java's names may hold half a character, which becomes its code, `\\ud800`."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def _frames(records: bytes) -> pa.Array:
    """The raw frames, without copying one."""
    starts = frame_offsets(records)
    offsets = pa.array([*starts, len(records)], pa.int32())
    return pa.Array.from_buffers(
        pa.binary(), len(starts), [None, offsets.buffers()[1], pa.py_buffer(records)]
    )
