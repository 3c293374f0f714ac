"""The tree of names: directories, links, renaming, removal."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from ..fields.access import Acl, Permissions
from ..fields.kinds import I32, I64, NUMBER_8, STRING, ShortBytes, String, array, enum
from ..fields.xattrs import XAttrs
from ..op import EditOp, edit_op, since
from .files import NO_CALL

SOURCES_MAX = 1024 * 1024
"""Files that are put together at once, as Hadoop has it."""

OPTIONS_MAX = 1024
"""Options of one renaming; there are three different ones."""


class RenameOption(IntEnum):
    """What becomes of a file that is in the way."""

    NONE = 0
    OVERWRITE = 1
    TO_TRASH = 2


RenameOptions = Annotated[tuple[RenameOption, ...], array(enum(RenameOption, NUMBER_8), OPTIONS_MAX)]
Sources = Annotated[tuple[str, ...], array(STRING, SOURCES_MAX)]


@edit_op(3, "OP_MKDIR")
class Mkdir(EditOp):
    """A directory is made."""

    inode_id: I64
    path: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
    acl: Acl = ()
    attributes: XAttrs = since(-57, default=())


@edit_op(2, "OP_DELETE")
class Delete(EditOp):
    """A file goes, or a directory with all that is in it."""

    path: String
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(1, "OP_RENAME_OLD")
class RenameOld(EditOp):
    """Renaming that refuses where something is in the way."""

    source: String
    target: String
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(15, "OP_RENAME")
class Rename(EditOp):
    """Renaming with options."""

    source: String
    target: String
    timestamp_ms: I64
    options: RenameOptions
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(16, "OP_CONCAT_DELETE")
class ConcatDelete(EditOp):
    """The blocks of the sources are put behind those of the target, and the sources go."""

    target: String
    sources: Sources
    timestamp_ms: I64
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(17, "OP_SYMLINK")
class Symlink(EditOp):
    """A link is made."""

    inode_id: I64
    path: String
    target: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL
