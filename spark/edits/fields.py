"""Which fields of ops fill the columns of edits, and what a log writes there to say that there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pyarrow as pa

from qjm_compat.edits import EditOp
from qjm_compat.edits.op import layout_of
from qjm_compat.edits.ops import CancelDelegationToken, ConcatDelete, RenewDelegationToken
from qjm_compat.edits.ops.files import NO_CALL


@dataclass(frozen=True, slots=True)
class Column:
    """Its type in Spark's words and in Arrow's, and the fields of ops that fill it: the first that an op has."""

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
"""Every column of `format("edits")`. What an op does not say is null."""

NOTHING: Mapping[str, object] = {"rpc_call_id": NO_CALL, "inode_id": 0, "mtime_ms": -1}
"""What stands in a field of which the log says nothing; so do empty names and ids, in any."""

SILENT: frozenset[tuple[type[EditOp], str]] = frozenset(
    {
        (ConcatDelete, "target"),  # it is the path: what becomes of the sources is in `fields`
        (RenewDelegationToken, "timestamp"),  # its token tells when it was given out, not when this was
        (CancelDelegationToken, "timestamp"),
    }
)
"""Ops that have a field for a column, and mean something else by it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

EARLIEST_MS = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MILLISECOND
LATEST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MILLISECOND
"""Times that Python can show in every time zone; a log may hold any number."""

Getter = Callable[[EditOp], Any]


def getter(cls: type[EditOp], name: str, layout_version: int) -> Getter:
    """What reads a column from ops of one class that were written at a layout."""
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
    """Empty names and ids are how the log says that there is none: joined, they would all be the same one."""
    if isinstance(value, bytes):
        return value.hex() or None
    return _text(value) or None if isinstance(value, str) else value


def _text(value: str) -> str:
    """As UTF-8 can say it: Java's names may hold half a character, which becomes its code, `\\ud800`."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
