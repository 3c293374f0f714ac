"""Maps fields of ops to the columns of edits, and the values that mean "none" in the log to null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pyarrow as pa

from qjm_compat.edits import EditOp
from qjm_compat.edits.op import NO_CALL, layout_of
from qjm_compat.edits.ops import CancelDelegationToken, ConcatDelete, RenewDelegationToken


@dataclass(frozen=True, slots=True)
class Column:
    """A column's Spark type and Arrow type, and the fields that can supply its value: the first of these that an op has
    is used."""

    ddl: str
    arrow: pa.DataType
    fields: tuple[str, ...] = ()


LONG, INT, STRING = pa.int64(), pa.int32(), pa.string()

COLUMNS: dict[str, Column] = {
    "txid": Column("bigint", LONG),
    "op": Column("string", STRING),
    "path": Column("string", STRING, ("path", "root", "source", "change.path", "directive.path", "target")),
    "target": Column("string", STRING, ("target",)),
    "timestamp": Column(
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        ("timestamp_ms", "mtime_ms", "started_ms", "finalized_ms", "token.issued_ms"),
    ),
    "username": Column("string", STRING, ("permission.user", "user", "info.owner", "token.owner")),
    "groupname": Column("string", STRING, ("permission.group", "group", "info.group")),
    "mode": Column("int", INT, ("permission.mode", "mode", "info.mode")),
    "inode_id": Column("bigint", LONG, ("inode_id",)),
    "replication": Column("int", INT, ("replication", "directive.replication")),
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
"""Every column of `format("edits")`. A column is null if the op does not set it."""

NOTHING: Mapping[str, object] = {"rpc_call_id": NO_CALL, "inode_id": 0, "mtime_ms": -1}
"""Values that mean "none" in these fields. In all fields, an empty name or id means "none"."""

SILENT: frozenset[tuple[type[EditOp], str]] = frozenset(
    {
        (ConcatDelete, "target"),  # the op's target is in column `path`, and its sources are in `fields`
        (RenewDelegationToken, "timestamp"),  # the time when the token was issued, not the time of this op
        (CancelDelegationToken, "timestamp"),
    }
)
"""Pairs of an op and a column that is null for this op, because the op's field of the same name has a different
meaning."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

EARLIEST_MS = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MILLISECOND
LATEST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MILLISECOND
"""The latest time that Python can represent in every time zone. A log may contain any number as a time."""

Getter = Callable[[EditOp], Any]


def getter(cls: type[EditOp], name: str, layout_version: int) -> Getter:
    """Returns a function that reads a column's value from ops of one class in a given layout version."""
    field = _field_of(cls, name)
    if field is None or field in dict(layout_of(cls.opcode, layout_version).absent):
        return lambda _: None
    value_of, nothing = attrgetter(field), NOTHING.get(field)
    shown = _micros if field.endswith("_ms") else _plain

    def get(op: EditOp) -> Any:
        value = value_of(op)
        return None if value is None or value == nothing else shown(value)

    return get


def _field_of(cls: type[EditOp], name: str) -> str | None:
    if (cls, name) in SILENT:
        return None
    known = cls.__dataclass_fields__
    return next((field for field in COLUMNS[name].fields if field.partition(".")[0] in known), None)


def _micros(ms: int) -> int | None:
    return 1000 * ms if EARLIEST_MS <= ms <= LATEST_MS else None


def _plain(value: Any) -> Any:
    """Converts empty names and ids to null, which is what they mean in the log; otherwise all empty values would be
    equal in a join."""
    if isinstance(value, bytes):
        return value.hex() or None
    return _text(value) or None if isinstance(value, str) else value


def _text(value: str) -> str:
    r"""Makes a text valid UTF-8: Java's names may contain a lone surrogate, which is replaced by its escape sequence,
    such as `\ud800`."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
