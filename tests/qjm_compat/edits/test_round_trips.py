"""Every op comes back from its bytes at every layout, says what it is, and refuses what a layout cannot say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qjm_compat.edits import (
    NEWEST_LAYOUT,
    OLDEST_LAYOUT,
    OPS,
    BrokenFrame,
    BrokenOp,
    EditOp,
    UnknownLayout,
    UnknownOp,
    decode_op,
    encode_frame,
    encode_op,
    iter_ops,
    op_to_json,
    op_to_xml,
)
from qjm_compat.edits.fields.blocks import Block
from qjm_compat.edits.fields.permissions import AclEntry, AclScope, AclType, Permission
from qjm_compat.edits.fields.xattrs import XAttr, XAttrNamespace
from qjm_compat.edits.op import OBSOLETE
from qjm_compat.edits.ops.attributes import SetQuotaByStorageType, StorageType
from qjm_compat.edits.ops.cache import CachePool, ModifyCachePool
from qjm_compat.edits.ops.files import Add, UpdateBlocks
from qjm_compat.edits.ops.namespace import Delete, Mkdir
from qjm_compat.edits.ops.segments import StartLogSegment
from qjm_compat.edits.ops.snapshots import CreateSnapshot
from tests.qjm_compat.edits.made_ops import LAYOUTS, any_op, numbered, ops_of

layouts = st.sampled_from(LAYOUTS)
all_ops = pytest.mark.parametrize("cls", OPS.values(), ids=lambda cls: cls.name)

MKDIR = Mkdir(
    txid=2,
    inode_id=16386,
    path="/d1",
    mtime_ms=0x1A1FD63DF45,
    atime_ms=0x1A1FD63DF45,
    permission=Permission("root", "supergroup", 0o755),
)


@all_ops
@settings(max_examples=30)
@given(data=st.data())
def test_an_op_comes_back_as_it_was_written(cls: type[EditOp], data: st.DataObject) -> None:
    layout_version = data.draw(layouts)
    op = data.draw(ops_of(cls, layout_version))
    frame = encode_op(op, layout_version)
    assert decode_op(frame, layout_version) == op
    assert encode_op(decode_op(frame, layout_version), layout_version) == frame


@all_ops
@settings(max_examples=5)
@given(data=st.data())
def test_an_op_says_what_it_is_in_json_and_in_xml(cls: type[EditOp], data: st.DataObject) -> None:
    op = data.draw(ops_of(cls, NEWEST_LAYOUT))
    shown = json.loads(json.dumps(op_to_json(op)))
    assert (shown["txid"], shown["op"]) == (op.txid, cls.name)
    record = op_to_xml(op, NEWEST_LAYOUT)
    assert (record[0].text, record[1][0].text) == (cls.name, str(op.txid))


@given(st.data())
def test_ops_behind_one_another_come_back_in_order(data: st.DataObject) -> None:
    layout_version = data.draw(layouts)
    ops = numbered(data.draw(st.lists(any_op(layout_version), max_size=6)), 5)
    assert list(iter_ops(b"".join([encode_op(op, layout_version) for op in ops]), layout_version)) == ops


def test_a_directory_has_the_bytes_that_a_name_node_sent() -> None:
    frame = bytes.fromhex(
        "03000000400000000000000002000000000000400200032f6431000001a1fd63df45000001a1fd63df45"
        "04726f6f740a737570657267726f757001ed0000000000091013b9"
    )
    assert encode_op(MKDIR, -63) == frame
    assert decode_op(frame, -63) == MKDIR


def test_json_has_names_octal_modes_and_hex() -> None:
    client = bytes(range(16))
    assert op_to_json(replace(MKDIR, attributes=(XAttr(XAttrNamespace.USER, "note", b"\x01\xff"),))) == {
        "txid": 2,
        "op": "OP_MKDIR",
        "inode_id": 16386,
        "path": "/d1",
        "mtime_ms": 0x1A1FD63DF45,
        "atime_ms": 0x1A1FD63DF45,
        "permission": {"user": "root", "group": "supergroup", "mode": "0755"},
        "acl": [],
        "attributes": [{"namespace": "USER", "name": "note", "value": "01ff"}],
    }
    delete = Delete(txid=3, path="/d1", timestamp_ms=9, rpc_client_id=client, rpc_call_id=4)
    assert op_to_json(delete)["rpc_client_id"] == client.hex()
    entry = AclEntry(AclScope.DEFAULT, AclType.GROUP, 5, "staff")
    assert op_to_json(replace(MKDIR, acl=(entry,)))["acl"] == [
        {"scope": "DEFAULT", "type": "GROUP", "name": "staff", "permissions": "r-x"}
    ]
    quota = SetQuotaByStorageType(txid=1, path="/q", storage_type=StorageType.SSD, space_bytes=1)
    assert json.loads(json.dumps(op_to_json(quota)))["storage_type"] == "SSD"
    pool = ModifyCachePool(txid=1, info=CachePool("fast", mode=0o700))
    assert op_to_json(pool)["info"] == {"pool": "fast", "mode": "0700"}


def test_blocks_are_written_as_differences_that_may_wrap_around() -> None:
    blocks = (Block(1, 1 << 62, -(1 << 63)), Block(2, 0, (1 << 63) - 1))
    op = UpdateBlocks(txid=1, path="/f", blocks=blocks)
    assert decode_op(encode_op(op, -63), -63) == op


FILE = Add(
    txid=1,
    inode_id=1,
    path="/f",
    replication=1,
    mtime_ms=0,
    atime_ms=0,
    block_size=1,
    blocks=(),
    permission=Permission("u", "g", 0),
    acl=(),
    client_name="",
    client_machine="",
)
SNAPSHOT = CreateSnapshot(txid=1, root="/", snapshot="s")


@pytest.mark.parametrize(
    ("op", "since"),
    [
        (replace(MKDIR, attributes=(XAttr(XAttrNamespace.USER, "a", b""),)), -57),
        (replace(FILE, attributes=(XAttr(XAttrNamespace.USER, "a", b""),)), -57),
        (replace(FILE, overwrite=True), -58),
        (replace(FILE, storage_policy_id=7), -60),
        (replace(FILE, erasure_coding_policy_id=1), -64),
        (replace(SNAPSHOT, mtime_ms=5), -66),
    ],
)
def test_what_an_older_layout_cannot_say_is_refused_and_never_dropped(op: EditOp, since: int) -> None:
    assert decode_op(encode_op(op, since), since) == op
    for layout_version in range(since + 1, OLDEST_LAYOUT + 1):
        with pytest.raises(BrokenOp, match=f"layout {layout_version} has no"):
            encode_op(op, layout_version)


def test_fields_that_a_layout_lacks_take_no_bytes() -> None:
    sizes = [len(encode_op(FILE, layout_version)) for layout_version in (-56, -57, -58, -60, -64)]
    assert [size - sizes[0] for size in sizes] == [0, 1, 2, 3, 4]
    assert len(encode_op(SNAPSHOT, -66)) == len(encode_op(SNAPSHOT, -65)) + 8


@pytest.mark.parametrize("layout_version", [-55, -68, 0])
def test_a_layout_that_nobody_knows_is_refused(layout_version: int) -> None:
    with pytest.raises(UnknownLayout):
        encode_op(MKDIR, layout_version)
    with pytest.raises(UnknownLayout):
        decode_op(encode_op(MKDIR, -63), layout_version)


@pytest.mark.parametrize(
    ("opcode", "reason"),
    [
        (5, "5 .OP_DATANODE_ADD. was dropped"),
        (6, "was dropped"),
        (53, "unknown op code 53"),
        (200, "unknown op code 200"),
    ],
)
def test_an_op_code_that_no_layout_has_is_refused(opcode: int, reason: str) -> None:
    with pytest.raises(UnknownOp, match=reason):
        decode_op(encode_frame(opcode, 1, b""), -67)


def test_every_op_code_up_to_the_last_is_known_or_known_to_be_given_up() -> None:
    assert sorted([*OPS, *OBSOLETE]) == list(range(53))


def test_bytes_behind_an_op_or_behind_its_fields_are_refused() -> None:
    with pytest.raises(BrokenFrame, match="1 bytes follow"):
        decode_op(encode_op(MKDIR, -63) + b"\0", -63)
    with pytest.raises(BrokenOp, match="OP_START_LOG_SEGMENT 7: 2 bytes of its body are left over"):
        decode_op(encode_frame(StartLogSegment.opcode, 7, b"ab"), -63)


@pytest.mark.parametrize(
    "op",
    [
        replace(MKDIR, inode_id=1 << 63),
        replace(MKDIR, path="x" * 65536),
        replace(MKDIR, permission=Permission("\ud800", "g", 0)),
        replace(MKDIR, acl=(AclEntry(AclScope.ACCESS, AclType.USER, 8),)),
        replace(MKDIR, txid=1 << 63),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_op(op: EditOp) -> None:
    with pytest.raises(BrokenOp, match="OP_MKDIR"):
        encode_op(op, -63)
