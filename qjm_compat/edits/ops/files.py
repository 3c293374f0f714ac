"""Ops on files and their blocks, from creating a file to closing it."""

from __future__ import annotations

from ..fields.blocks import Blocks, CompactBlocks
from ..fields.field_types import I8, I16, I64, Flag, String
from ..fields.permissions import Acl, Permissions
from ..fields.xattrs import XAttrs
from ..op import EditOp, RetriedOp, edit_op, since


@edit_op(0, "OP_ADD")
class Add(RetriedOp):
    """Creates a file, or (before layout -62) opens it for appending."""

    inode_id: I64
    path: String
    replication: I16
    mtime_ms: I64
    atime_ms: I64
    block_size: I64
    blocks: Blocks
    permission: Permissions
    acl: Acl
    attributes: XAttrs = since(-57, default=())
    client_name: String
    client_machine: String
    overwrite: Flag = since(-58, default=False)
    storage_policy_id: I8 = since(-60, default=0)
    erasure_coding_policy_id: I8 = since(-64, default=0)


@edit_op(9, "OP_CLOSE")
class Close(EditOp):
    """Closes a file; `blocks` contains all its blocks."""

    inode_id: I64
    path: String
    replication: I16
    mtime_ms: I64
    atime_ms: I64
    block_size: I64
    blocks: Blocks
    permission: Permissions


@edit_op(47, "OP_APPEND")
class Append(RetriedOp):
    """Opens a file for appending, either to its last block or to a new block."""

    path: String
    client_name: String
    client_machine: String
    new_block: Flag


@edit_op(46, "OP_TRUNCATE")
class Truncate(EditOp):
    """Truncates a file; `blocks` holds the block that is cut, or is empty if the cut falls between two blocks."""

    path: String
    client_name: String
    client_machine: String
    length_bytes: I64
    timestamp_ms: I64
    blocks: CompactBlocks


@edit_op(33, "OP_ADD_BLOCK")
class AddBlock(RetriedOp):
    """Adds a block to a file; `blocks` contains the previous block, if any, and the new one."""

    path: String
    blocks: CompactBlocks


@edit_op(25, "OP_UPDATE_BLOCKS")
class UpdateBlocks(RetriedOp):
    path: String
    blocks: CompactBlocks


@edit_op(22, "OP_REASSIGN_LEASE")
class ReassignLease(EditOp):
    lease_holder: String
    path: String
    new_holder: String
