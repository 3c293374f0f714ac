"""Ops on the tree of names: directories, links, renaming, deletion."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from ..fields.access import Acl, Permissions
from ..fields.field_types import I32, I64, NUMBER_8, STRING, ShortBytes, String, array, enum
from ..fields.xattrs import XAttrs
from ..op import EditOp, edit_op, since
from .files import NO_CALL

SOURCES_MAX = 1024 * 1024
"""Files concatenated at once, as in Hadoop."""

OPTIONS_MAX = 1024
"""Options of one rename; there are three different ones."""


class RenameOption(IntEnum):
    """What becomes of an existing target."""

    NONE = 0
    OVERWRITE = 1
    TO_TRASH = 2


RenameOptions = Annotated[tuple[RenameOption, ...], array(enum(RenameOption, NUMBER_8), OPTIONS_MAX)]
Sources = Annotated[tuple[str, ...], array(STRING, SOURCES_MAX)]


@edit_op(3, "OP_MKDIR")
class Mkdir(EditOp):
    """Creates a directory."""

    inode_id: I64
    path: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
    acl: Acl = ()
    attributes: XAttrs = since(-57, default=())


@edit_op(2, "OP_DELETE")
class Delete(EditOp):
    """Deletes a file, or a directory with all its contents."""

    path: String
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(1, "OP_RENAME_OLD")
class RenameOld(EditOp):
    """Renames; refuses an existing target."""

    source: String
    target: String
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(15, "OP_RENAME")
class Rename(EditOp):
    """Renames with options."""

    source: String
    target: String
    timestamp_ms: I64
    options: RenameOptions
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(16, "OP_CONCAT_DELETE")
class ConcatDelete(EditOp):
    """Appends the blocks of the sources to the target, and deletes the sources."""

    target: String
    sources: Sources
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(17, "OP_SYMLINK")
class Symlink(EditOp):
    """Creates a symbolic link."""

    inode_id: I64
    path: String
    target: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL
