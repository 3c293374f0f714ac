"""Ops on snapshots of directories. They carry their time from layout -66 on."""

from __future__ import annotations

from ..fields.field_types import I32, I64, ShortBytes, String
from ..op import EditOp, edit_op, since
from .files import NO_CALL


@edit_op(29, "OP_ALLOW_SNAPSHOT")
class AllowSnapshot(EditOp):
    """Allows snapshots of a directory."""

    root: String


@edit_op(30, "OP_DISALLOW_SNAPSHOT")
class DisallowSnapshot(EditOp):
    """Disallows snapshots of a directory."""

    root: String


@edit_op(26, "OP_CREATE_SNAPSHOT")
class CreateSnapshot(EditOp):
    """Creates a snapshot."""

    root: String
    snapshot: String
    mtime_ms: I64 = since(-66, default=0)
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(27, "OP_DELETE_SNAPSHOT")
class DeleteSnapshot(EditOp):
    """Deletes a snapshot."""

    root: String
    snapshot: String
    mtime_ms: I64 = since(-66, default=0)
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(28, "OP_RENAME_SNAPSHOT")
class RenameSnapshot(EditOp):
    """Renames a snapshot."""

    root: String
    old_name: String
    new_name: String
    mtime_ms: I64 = since(-66, default=0)
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL
