"""Formats ops as `hdfs oev -p xml` does, so that the two can be compared element by element.

Omits what oev omits: the storage policy and the extended attributes of a new file, the atime of a
directory. The LENGTH that it prints has been 0 since the ops' format last changed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from enum import IntEnum
from xml.etree.ElementTree import Element, SubElement

from .fields.access import AclChange, AclEntry, Permission, permissions_text
from .fields.blocks import Block
from .fields.xattrs import XAttr, XAttrChange
from .op import EditOp, layout_of
from .ops.cache import CacheDirective, CachePool
from .ops.erasure_coding import ErasureCodingPolicy
from .ops.tokens import DelegationKey, DelegationToken

Content = str | Sequence[tuple[str, "Content"]]
"""The text of an element, or its child elements."""

_MODE_BITS = 0o1777
"""The mode bits that Hadoop uses; it ignores all others."""

_CONSTANTS = {"LENGTH": "0", "CLIENT_NAME": "", "CLIENT_MACHINE": "", "OVERWRITE": "false"}

_RPC = "RPC_CLIENTID=rpc_client_id RPC_CALLID=rpc_call_id"
_TIMES = "MTIME=mtime_ms ATIME=atime_ms"
_FILE = f"LENGTH INODEID=inode_id PATH=path REPLICATION=replication {_TIMES} BLOCKSIZE=block_size"
_CLIENT = "CLIENT_NAME=client_name CLIENT_MACHINE=client_machine"
_RENAME = "LENGTH SRC=source DST=target TIMESTAMP=timestamp_ms"
_SNAPSHOT = f"SNAPSHOTROOT=root SNAPSHOTNAME=snapshot MTIME=mtime_ms {_RPC}"
_POLICY = f"POLICYNAME=policy_name {_RPC}"

# What oev prints of each op, in its order: ELEMENT=field; an element alone is a constant; a field alone has
# elements of its own; behind a question mark an empty text is left out.
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


def op_to_xml(op: EditOp, layout_version: int) -> Element:
    """The RECORD element of an op, without fields that this layout lacks."""
    record = Element("RECORD")
    SubElement(record, "OPCODE").text = op.name
    _add(SubElement(record, "DATA"), [("TXID", str(op.txid)), *_content(op, layout_version)])
    return record


def _add(parent: Element, content: Sequence[tuple[str, Content]]) -> None:
    for tag, inside in content:
        element = SubElement(parent, tag)
        if isinstance(inside, str):
            element.text = _NOT_IN_XML.sub(_mangled, inside)
        else:
            _add(element, inside)


_NOT_IN_XML = re.compile("[\\\\\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _mangled(found: re.Match[str]) -> str:
    return f"\\{ord(found[0]):04x};"


def _content(op: EditOp, layout_version: int) -> Iterator[tuple[str, Content]]:
    absent = {name for name, _ in layout_of(op.opcode, layout_version).absent}
    for word in _ELEMENTS[op.name].split():
        tag, _, name = word.lstrip("?").partition("=")
        if not name and tag in _CONSTANTS:
            yield tag, _CONSTANTS[tag]
        elif not name:
            yield from _own_elements(getattr(op, tag))
        elif name not in absent and not (word[0] == "?" and not getattr(op, name)):
            yield tag, _inside(tag, getattr(op, name))


def _inside(tag: str, value: object) -> Content:
    if tag == "SOURCES" and isinstance(value, tuple):
        return [(f"SOURCE{number}", str(path)) for number, path in enumerate(value, 1)]
    if tag == "OPTIONS" and isinstance(value, tuple):
        return "|".join([option.name for option in value])
    if tag == "RPC_CLIENTID" and isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()
    if tag == "MODE" and isinstance(value, int):
        return _text(value & _MODE_BITS)
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, IntEnum) else str(value)


def _own_elements(value: object) -> Iterator[tuple[str, Content]]:
    match value:
        case tuple():
            for one in value:
                yield from _own_elements(one)
        case Block():
            yield (
                "BLOCK",
                _named(BLOCK_ID=value.block_id, NUM_BYTES=value.length_bytes, GENSTAMP=value.genstamp),
            )
        case Permission():
            yield (
                "PERMISSION_STATUS",
                _named(USERNAME=value.user, GROUPNAME=value.group, MODE=value.mode & _MODE_BITS),
            )
        case AclEntry():
            yield "ENTRY", _acl_entry(value)
        case XAttr():
            yield "XATTR", _xattr(value)
        case AclChange():
            yield from [("SRC", value.path), *_own_elements(value.entries)]
        case XAttrChange():
            yield from [("SRC", value.path or ""), *_own_elements(value.attributes)]
        case CacheDirective():
            yield from _directive(value)
        case CachePool():
            yield from _pool(value)
        case DelegationToken():
            yield "DELEGATION_TOKEN_IDENTIFIER", _token(value)
        case DelegationKey():
            yield "DELEGATION_KEY", _key(value)
        case ErasureCodingPolicy():
            yield from _policy(value)
        case _:
            raise TypeError(f"nobody knows the elements of {type(value).__name__}")


def _named(**values: object) -> list[tuple[str, Content]]:
    """Elements by name, without those that are None."""
    return [(tag, _text(value)) for tag, value in values.items() if value is not None]


def _acl_entry(entry: AclEntry) -> list[tuple[str, Content]]:
    shown = permissions_text(entry.permissions)
    return _named(SCOPE=entry.scope.name, TYPE=entry.type.name, NAME=entry.name, PERM=shown)


def _xattr(one: XAttr) -> list[tuple[str, Content]]:
    value = None if one.value is None else f"0x{one.value.hex()}"
    return _named(NAMESPACE=one.namespace.name, NAME=one.name, VALUE=value)


def _directive(one: CacheDirective) -> list[tuple[str, Content]]:
    return _named(
        ID=one.directive_id,
        PATH=one.path,
        REPLICATION=one.replication,
        POOL=one.pool,
        EXPIRATION=one.expires_ms,
    )


def _pool(one: CachePool) -> list[tuple[str, Content]]:
    return _named(
        POOLNAME=one.pool,
        OWNERNAME=one.owner,
        GROUPNAME=one.group,
        MODE=None if one.mode is None else one.mode & _MODE_BITS,
        LIMIT=one.limit_bytes,
        MAXRELATIVEEXPIRY=one.lifetime_max_ms,
        DEFAULTREPLICATION=one.default_replication,
    )


def _token(one: DelegationToken) -> list[tuple[str, Content]]:
    return _named(
        KIND="HDFS_DELEGATION_TOKEN",
        SEQUENCE_NUMBER=one.sequence_number,
        OWNER=one.owner,
        RENEWER=one.renewer,
        REALUSER=one.real_user,
        ISSUE_DATE=one.issued_ms,
        MAX_DATE=one.renewable_until_ms,
        MASTER_KEY_ID=one.master_key_id,
    )


def _key(one: DelegationKey) -> list[tuple[str, Content]]:
    key = None if one.key is None else one.key.hex()
    return _named(KEY_ID=one.key_id, EXPIRY_DATE=one.expires_ms, KEY=key)


def _policy(one: ErasureCodingPolicy) -> Iterator[tuple[str, Content]]:
    yield from _named(
        CODEC=one.codec,
        DATAUNITS=one.data_units,
        PARITYUNITS=one.parity_units,
        CELLSIZE=one.cell_bytes,
        EXTRAOPTIONS=len(one.options),
    )
    for option in one.options:
        yield "EXTRAOPTION", _named(KEY=option.key, VALUE=option.value)
