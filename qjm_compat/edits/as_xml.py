"""Formats ops like `hdfs oev -p xml`, so that the two outputs can be compared element by element.

Omits the fields that oev omits: the storage policy and the extended attributes of a new file, and the atime of a
directory. The LENGTH that oev prints has been 0 since the ops' format last changed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from .fields.blocks import Block
from .fields.permissions import AclChange, AclEntry, Permission, permissions_text
from .fields.xattrs import XAttr, XAttrChange
from .op import EditOp, layout_of
from .ops.cache import CacheDirective, CachePool
from .ops.erasure_coding import ErasureCodingPolicy, ExtraOption
from .ops.tokens import DelegationKey, DelegationToken

Content = str | Sequence[tuple[str, "Content"]]
"""The text of an element, or its child elements."""

_MODE_BITS = 0o1777
"""The mode bits that Hadoop uses; it ignores all other bits."""

_CONSTANTS = {
    "LENGTH": "0",
    "CLIENT_NAME": "",
    "CLIENT_MACHINE": "",
    "OVERWRITE": "false",
    "KIND": "HDFS_DELEGATION_TOKEN",
}

_RPC = "RPC_CLIENTID=rpc_client_id RPC_CALLID=rpc_call_id"
_TIMES = "MTIME=mtime_ms ATIME=atime_ms"
_FILE = f"LENGTH INODEID=inode_id PATH=path REPLICATION=replication {_TIMES} BLOCKSIZE=block_size"
_CLIENT = "CLIENT_NAME=client_name CLIENT_MACHINE=client_machine"
_RENAME = "LENGTH SRC=source DST=target TIMESTAMP=timestamp_ms"
_SNAPSHOT = f"SNAPSHOTROOT=root SNAPSHOTNAME=snapshot MTIME=mtime_ms {_RPC}"
_POLICY = f"POLICYNAME=policy_name {_RPC}"
_POOL = "POOLNAME=pool OWNERNAME=owner GROUPNAME=group MODE=mode LIMIT=limit_bytes MAXRELATIVEEXPIRY=lifetime_max_ms"
_USERS = "OWNER=owner RENEWER=renewer REALUSER=real_user"
_DATES = "ISSUE_DATE=issued_ms MAX_DATE=renewable_until_ms"

# The elements that oev prints for each op, in oev's order. ELEMENT=field prints the field; ELEMENT without a field is a
# constant; a field without ELEMENT has its own elements. An element marked with a question mark is omitted if its text
# is empty; None is always omitted.
_ELEMENTS = {
    "OP_ADD": f"{_FILE} {_CLIENT} OVERWRITE=overwrite blocks permission acl "
    f"ERASURE_CODING_POLICY_ID=erasure_coding_policy_id {_RPC}",
    "OP_RENAME_OLD": f"{_RENAME} {_RPC}",
    "OP_DELETE": f"LENGTH PATH=path TIMESTAMP=timestamp_ms {_RPC}",
    "OP_MKDIR": "LENGTH INODEID=inode_id PATH=path TIMESTAMP=mtime_ms permission acl attributes",
    "OP_SET_REPLICATION": "PATH=path REPLICATION=replication",
    "OP_SET_PERMISSIONS": "SRC=path MODE=mode",
    "OP_SET_OWNER": "SRC=path ?USERNAME=user ?GROUPNAME=group",
    "OP_CLOSE": f"{_FILE} CLIENT_NAME CLIENT_MACHINE OVERWRITE blocks permission",
    "OP_SET_GENSTAMP_V1": "GENSTAMP=genstamp",
    "OP_SET_NS_QUOTA": "SRC=path NSQUOTA=names",
    "OP_CLEAR_NS_QUOTA": "SRC=path",
    "OP_TIMES": f"LENGTH PATH=path {_TIMES}",
    "OP_SET_QUOTA": "SRC=path NSQUOTA=names DSQUOTA=space_bytes",
    "OP_RENAME": f"{_RENAME} OPTIONS=options {_RPC}",
    "OP_CONCAT_DELETE": f"LENGTH TRG=target TIMESTAMP=timestamp_ms SOURCES=sources {_RPC}",
    "OP_SYMLINK": f"LENGTH INODEID=inode_id PATH=path VALUE=target {_TIMES} permission {_RPC}",
    "OP_GET_DELEGATION_TOKEN": "token EXPIRY_TIME=expires_ms",
    "OP_RENEW_DELEGATION_TOKEN": "token EXPIRY_TIME=expires_ms",
    "OP_CANCEL_DELEGATION_TOKEN": "token",
    "OP_UPDATE_MASTER_KEY": "key",
    "OP_REASSIGN_LEASE": "LEASEHOLDER=lease_holder PATH=path NEWHOLDER=new_holder",
    "OP_END_LOG_SEGMENT": "",
    "OP_START_LOG_SEGMENT": "",
    "OP_UPDATE_BLOCKS": f"PATH=path blocks {_RPC}",
    "OP_CREATE_SNAPSHOT": _SNAPSHOT,
    "OP_DELETE_SNAPSHOT": _SNAPSHOT,
    "OP_RENAME_SNAPSHOT": "SNAPSHOTROOT=root SNAPSHOTOLDNAME=old_name SNAPSHOTNEWNAME=new_name "
    f"MTIME=mtime_ms {_RPC}",
    "OP_ALLOW_SNAPSHOT": "SNAPSHOTROOT=root",
    "OP_DISALLOW_SNAPSHOT": "SNAPSHOTROOT=root",
    "OP_SET_GENSTAMP_V2": "GENSTAMPV2=genstamp",
    "OP_ALLOCATE_BLOCK_ID": "BLOCK_ID=block_id",
    "OP_ADD_BLOCK": f"PATH=path blocks {_RPC}",
    "OP_ADD_CACHE_DIRECTIVE": f"directive {_RPC}",
    "OP_REMOVE_CACHE_DIRECTIVE": f"ID=directive_id {_RPC}",
    "OP_ADD_CACHE_POOL": f"info {_RPC}",
    "OP_MODIFY_CACHE_POOL": f"info {_RPC}",
    "OP_REMOVE_CACHE_POOL": f"POOLNAME=pool {_RPC}",
    "OP_MODIFY_CACHE_DIRECTIVE": f"directive {_RPC}",
    "OP_SET_ACL": "change",
    "OP_ROLLING_UPGRADE_START": "STARTTIME=started_ms",
    "OP_ROLLING_UPGRADE_FINALIZE": "FINALIZETIME=finalized_ms",
    "OP_SET_XATTR": f"change {_RPC}",
    "OP_REMOVE_XATTR": f"change {_RPC}",
    "OP_SET_STORAGE_POLICY": "PATH=path POLICYID=policy_id",
    "OP_TRUNCATE": "SRC=path CLIENTNAME=client_name CLIENTMACHINE=client_machine NEWLENGTH=length_bytes "
    "TIMESTAMP=timestamp_ms blocks",
    "OP_APPEND": f"PATH=path {_CLIENT} NEWBLOCK=new_block {_RPC}",
    "OP_SET_QUOTA_BY_STORAGETYPE": "SRC=path STORAGETYPE=storage_type DSQUOTA=space_bytes",
    "OP_ADD_ERASURE_CODING_POLICY": f"policy {_RPC}",
    "OP_ENABLE_ERASURE_CODING_POLICY": _POLICY,
    "OP_DISABLE_ERASURE_CODING_POLICY": _POLICY,
    "OP_REMOVE_ERASURE_CODING_POLICY": _POLICY,
}

# For values that have their own elements: the enclosing element, if any, and the elements, in the notation above.
_PARTS: dict[type, tuple[str, str]] = {
    AclChange: ("", "SRC=path entries"),
    AclEntry: ("ENTRY", "SCOPE=scope TYPE=type NAME=name PERM=permissions"),
    Block: ("BLOCK", "BLOCK_ID=block_id NUM_BYTES=length_bytes GENSTAMP=genstamp"),
    CacheDirective: ("", "ID=directive_id PATH=path REPLICATION=replication POOL=pool EXPIRATION=expires_ms"),
    CachePool: ("", f"{_POOL} DEFAULTREPLICATION=default_replication"),
    DelegationKey: ("DELEGATION_KEY", "KEY_ID=key_id EXPIRY_DATE=expires_ms KEY=key"),
    DelegationToken: (
        "DELEGATION_TOKEN_IDENTIFIER",
        f"KIND SEQUENCE_NUMBER=sequence_number {_USERS} {_DATES} MASTER_KEY_ID=master_key_id",
    ),
    ErasureCodingPolicy: (
        "",
        "CODEC=codec DATAUNITS=data_units PARITYUNITS=parity_units CELLSIZE=cell_bytes EXTRAOPTIONS=options options",
    ),
    ExtraOption: ("EXTRAOPTION", "KEY=key VALUE=value"),
    Permission: ("PERMISSION_STATUS", "USERNAME=user GROUPNAME=group MODE=mode"),
    XAttr: ("XATTR", "NAMESPACE=namespace NAME=name VALUE=value"),
    XAttrChange: ("", "SRC=path attributes"),
}


def op_to_xml(op: EditOp, layout_version: int) -> Element:
    """Returns the RECORD element of an op, omitting fields that do not exist in this layout."""
    absent = {name for name, _ in layout_of(op.opcode, layout_version).absent}
    record = Element("RECORD")
    SubElement(record, "OPCODE").text = op.name
    _add(SubElement(record, "DATA"), [("TXID", str(op.txid)), *_content(op, _ELEMENTS[op.name], absent)])
    return record


def _add(parent: Element, content: Iterable[tuple[str, Content]]) -> None:
    for tag, inside in content:
        element = SubElement(parent, tag)
        if isinstance(inside, str):
            element.text = _NOT_IN_XML.sub(lambda found: f"\\{ord(found[0]):04x};", inside)
        else:
            _add(element, inside)


_NOT_IN_XML = re.compile("[\\\\\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _content(one: object, elements: str, absent: Collection[str] = ()) -> Iterator[tuple[str, Content]]:
    for word in elements.split():
        tag, _, name = word.lstrip("?").partition("=")
        if not name and tag in _CONSTANTS:
            yield tag, _CONSTANTS[tag]
        elif not name:
            yield from _own_elements(getattr(one, tag))
        elif name not in absent and not (word[0] == "?" and not getattr(one, name)):
            inside = _inside(tag, getattr(one, name))
            if inside is not None:
                yield tag, inside


def _own_elements(value: object) -> Iterator[tuple[str, Content]]:
    if isinstance(value, tuple):
        for one in value:
            yield from _own_elements(one)
        return
    around, elements = _PARTS[type(value)]
    content = _content(value, elements)
    if around:
        yield around, list(content)
    else:
        yield from content


def _inside(tag: str, value: Any) -> Content | None:
    match tag, value:
        case "SRC", None:
            return ""
        case _, None:
            return None
        case "SOURCES", _:
            return [(f"SOURCE{number}", path) for number, path in enumerate(value, 1)]
        case "OPTIONS", _:
            return "|".join([option.name for option in value])
        case "EXTRAOPTIONS", _:
            return str(len(value))
        case "RPC_CLIENTID", _:
            return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()
        case "MODE", _:
            return str(value & _MODE_BITS)
        case "PERM", _:
            return permissions_text(value)
        case "SCOPE" | "TYPE" | "NAMESPACE", _:
            return str(value.name)
        case "VALUE", bytes():
            return f"0x{value.hex()}"
        case "KEY", bytes():
            return value.hex()
        case _, bool():
            return "true" if value else "false"
        case _:
            return str(int(value)) if isinstance(value, IntEnum) else str(value)
