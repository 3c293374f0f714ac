"""Ops on the namespace tree: directories, links, renaming, deletion."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from ..fields.field_types import I64, NUMBER_8, STRING, String, array, enum
from ..fields.permissions import Acl, Permissions
from ..fields.xattrs import XAttrs
from ..op import EditOp, RetriedOp, edit_op, since

SOURCES_MAX = 1024 * 1024
"""Maximum number of files that one op concatenates, as in Hadoop."""

OPTIONS_MAX = 1024
"""Maximum number of options of one rename; only three exist."""


class RenameOption(IntEnum):
    """How a rename handles an existing target."""

    NONE = 0
    OVERWRITE = 1
    TO_TRASH = 2


RenameOptions = Annotated[tuple[RenameOption, ...], array(enum(RenameOption, NUMBER_8), OPTIONS_MAX)]
Sources = Annotated[tuple[str, ...], array(STRING, SOURCES_MAX)]


@edit_op(3, "OP_MKDIR")
class Mkdir(EditOp):
    inode_id: I64
    path: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
    acl: Acl = ()
    attributes: XAttrs = since(-57, default=())


@edit_op(2, "OP_DELETE")
class Delete(RetriedOp):
    """Deletes a file, or a directory with all its contents."""

    path: String
    timestamp_ms: I64


@edit_op(1, "OP_RENAME_OLD")
class RenameOld(RetriedOp):
    """Renames a file or directory; fails if the target exists."""

    source: String
    target: String
    timestamp_ms: I64


@edit_op(15, "OP_RENAME")
class Rename(RetriedOp):
    """Renames a file or directory, with options."""

    source: String
    target: String
    timestamp_ms: I64
    options: RenameOptions


@edit_op(16, "OP_CONCAT_DELETE")
class ConcatDelete(RetriedOp):
    """Appends the blocks of the sources to the target, and deletes the sources."""

    target: String
    sources: Sources
    timestamp_ms: I64


@edit_op(17, "OP_SYMLINK")
class Symlink(RetriedOp):
    inode_id: I64
    path: String
    target: String
    mtime_ms: I64
    atime_ms: I64
    permission: Permissions
