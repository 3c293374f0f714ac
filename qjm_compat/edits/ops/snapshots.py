"""Ops on snapshots of directories. They include a time from layout -66 on."""

from __future__ import annotations

from ..fields.field_types import I64, String
from ..op import EditOp, RetriedOp, edit_op, since


@edit_op(29, "OP_ALLOW_SNAPSHOT")
class AllowSnapshot(EditOp):
    root: String


@edit_op(30, "OP_DISALLOW_SNAPSHOT")
class DisallowSnapshot(EditOp):
    root: String


@edit_op(26, "OP_CREATE_SNAPSHOT")
class CreateSnapshot(RetriedOp):
    root: String
    snapshot: String
    mtime_ms: I64 = since(-66, default=0)


@edit_op(27, "OP_DELETE_SNAPSHOT")
class DeleteSnapshot(RetriedOp):
    root: String
    snapshot: String
    mtime_ms: I64 = since(-66, default=0)


@edit_op(28, "OP_RENAME_SNAPSHOT")
class RenameSnapshot(RetriedOp):
    root: String
    old_name: String
    new_name: String
    mtime_ms: I64 = since(-66, default=0)
