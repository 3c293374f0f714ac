"""What files and directories are like: replication, owner, times, quotas, lists of access, extended attributes."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from ..fields.access import AclMessage
from ..fields.kinds import I8, I16, I32, I64, NUMBER_32, Mode, ShortBytes, String, enum
from ..fields.xattrs import XAttrMessage
from ..op import EditOp, edit_op
from .files import NO_CALL


class StorageType(IntEnum):
    """What a quota is for. PROVIDED came with layout -64, NVDIMM with -67."""

    RAM_DISK = 0
    SSD = 1
    DISK = 2
    ARCHIVE = 3
    PROVIDED = 4
    NVDIMM = 5


TypeOfStorage = Annotated[StorageType, enum(StorageType, NUMBER_32)]


@edit_op(4, "OP_SET_REPLICATION")
class SetReplication(EditOp):
    """How many copies a file is to have."""

    path: String
    replication: I16


@edit_op(7, "OP_SET_PERMISSIONS")
class SetPermissions(EditOp):
    """Who may do what."""

    path: String
    mode: Mode


@edit_op(8, "OP_SET_OWNER")
class SetOwner(EditOp):
    """Whose it is; an empty name changes nothing."""

    path: String
    user: String
    group: String


@edit_op(13, "OP_TIMES")
class Times(EditOp):
    """When it was changed and read; -1 leaves a time as it is."""

    path: String
    mtime_ms: I64
    atime_ms: I64


@edit_op(14, "OP_SET_QUOTA")
class SetQuota(EditOp):
    """How many names, and bytes with all copies, a directory may hold; -1 is no limit."""

    path: String
    names: I64
    space_bytes: I64


@edit_op(11, "OP_SET_NS_QUOTA")
class SetNamesQuota(EditOp):
    """As it was before SET_QUOTA; no longer written."""

    path: String
    names: I64


@edit_op(12, "OP_CLEAR_NS_QUOTA")
class ClearNamesQuota(EditOp):
    """As it was before SET_QUOTA; no longer written."""

    path: String


@edit_op(48, "OP_SET_QUOTA_BY_STORAGETYPE")
class SetQuotaByStorageType(EditOp):
    """How many bytes a directory may have on one type of storage."""

    path: String
    storage_type: TypeOfStorage
    space_bytes: I64


@edit_op(45, "OP_SET_STORAGE_POLICY")
class SetStoragePolicy(EditOp):
    """Where blocks are to lie."""

    path: String
    policy_id: I8


@edit_op(40, "OP_SET_ACL")
class SetAcl(EditOp):
    """The whole list of who may do what."""

    change: AclMessage


@edit_op(43, "OP_SET_XATTR")
class SetXAttr(EditOp):
    """Extended attributes are set."""

    change: XAttrMessage
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL


@edit_op(44, "OP_REMOVE_XATTR")
class RemoveXAttr(EditOp):
    """Extended attributes go."""

    change: XAttrMessage
    rpc_client_id: ShortBytes = b""
    rpc_call_id: I32 = NO_CALL
