"""Ops on attributes of files and directories: replication, owner, times, quotas, ACLs, extended attributes."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from ..fields.field_types import I8, I16, I64, NUMBER_32, Mode, String, enum
from ..fields.permissions import AclMessage
from ..fields.xattrs import XAttrMessage
from ..op import EditOp, RetriedOp, edit_op


class StorageType(IntEnum):
    """Storage types for quotas. PROVIDED was added in layout -64, NVDIMM in -67."""

    RAM_DISK = 0
    SSD = 1
    DISK = 2
    ARCHIVE = 3
    PROVIDED = 4
    NVDIMM = 5


TypeOfStorage = Annotated[StorageType, enum(StorageType, NUMBER_32)]


@edit_op(4, "OP_SET_REPLICATION")
class SetReplication(EditOp):
    path: String
    replication: I16


@edit_op(7, "OP_SET_PERMISSIONS")
class SetPermissions(EditOp):
    path: String
    mode: Mode


@edit_op(8, "OP_SET_OWNER")
class SetOwner(EditOp):
    """Sets the owner and group; an empty name leaves the value unchanged."""

    path: String
    user: String
    group: String


@edit_op(13, "OP_TIMES")
class Times(EditOp):
    """Sets the modification and access times; -1 leaves a time unchanged."""

    path: String
    mtime_ms: I64
    atime_ms: I64


@edit_op(14, "OP_SET_QUOTA")
class SetQuota(EditOp):
    """Sets a directory's quotas for the number of names and for bytes, counting all copies; -1 means no limit."""

    path: String
    names: I64
    space_bytes: I64


@edit_op(11, "OP_SET_NS_QUOTA")
class SetNamesQuota(EditOp):
    """Superseded by SET_QUOTA; no longer written."""

    path: String
    names: I64


@edit_op(12, "OP_CLEAR_NS_QUOTA")
class ClearNamesQuota(EditOp):
    """Superseded by SET_QUOTA; no longer written."""

    path: String


@edit_op(48, "OP_SET_QUOTA_BY_STORAGETYPE")
class SetQuotaByStorageType(EditOp):
    path: String
    storage_type: TypeOfStorage
    space_bytes: I64


@edit_op(45, "OP_SET_STORAGE_POLICY")
class SetStoragePolicy(EditOp):
    """Sets the storage policy, which determines where blocks are placed."""

    path: String
    policy_id: I8


@edit_op(40, "OP_SET_ACL")
class SetAcl(EditOp):
    change: AclMessage


@edit_op(43, "OP_SET_XATTR")
class SetXAttr(RetriedOp):
    change: XAttrMessage


@edit_op(44, "OP_REMOVE_XATTR")
class RemoveXAttr(RetriedOp):
    change: XAttrMessage
