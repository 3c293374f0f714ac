"""Whatever the bytes, they are ops or one clear error, soon and without more memory than the bytes themselves."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qjm_compat.edits import (
    NEWEST_LAYOUT,
    OPS,
    BrokenOp,
    EditLogError,
    EditOp,
    check_batch,
    decode_op,
    encode_frame,
    encode_op,
    frame_offsets,
    iter_ops,
    iter_segment,
    scan_segment,
    segment_bytes,
    slice_batch,
)
from qjm_compat.edits.fields.java import write_vint
from qjm_compat.edits.fields.protobuf import FIELDS_MAX, write_varint
from qjm_compat.edits.ops.attributes import SetAcl, SetQuotaByStorageType, SetXAttr
from qjm_compat.edits.ops.cache import AddCachePool, ModifyCacheDirective
from qjm_compat.edits.ops.erasure_coding import AddErasureCodingPolicy
from qjm_compat.edits.ops.files import Add, Append, UpdateBlocks
from qjm_compat.edits.ops.namespace import ConcatDelete, Mkdir, Rename
from qjm_compat.edits.ops.tokens import KEY_BYTES_MAX, CancelDelegationToken, DelegationKey, UpdateMasterKey
from tests.qjm_compat.edits.made_ops import LAYOUTS, any_op, ops_of
from tests.qjm_compat.edits.sample_ops import newer_ops, sample_ops
from tests.qjm_compat.edits.test_round_trips import FILE, MKDIR

all_ops = pytest.mark.parametrize("cls", OPS.values(), ids=lambda cls: cls.name)


def _decoded(frame: bytes, layout_version: int) -> EditOp | None:
    try:
        return decode_op(frame, layout_version)
    except EditLogError:
        return None


@all_ops
@settings(max_examples=30)
@given(data=st.data())
def test_a_changed_or_cut_body_is_an_op_of_just_these_bytes_or_an_error(
    cls: type[EditOp], data: st.DataObject
) -> None:
    layout_version = data.draw(st.sampled_from(LAYOUTS))
    body = bytearray(encode_op(data.draw(ops_of(cls, layout_version)), layout_version)[13:-4])
    for at in data.draw(st.lists(st.integers(0, max(0, len(body) - 1)), max_size=3)) if body else []:
        body[at] = data.draw(st.integers(0, 255))
    frame = encode_frame(cls.opcode, 1, bytes(body[: data.draw(st.integers(0, len(body)))]))
    op = _decoded(frame, layout_version)
    if op is not None:
        assert encode_op(op, layout_version) == frame


READERS: dict[str, Callable[[bytes], object]] = {
    "iter_segment": lambda data: list(iter_segment(data)),
    "iter_ops": lambda data: list(iter_ops(data, -63)),
    "scan_segment": scan_segment,
    "check_batch": lambda data: check_batch(data, 1, 3),
    "slice_batch": lambda data: slice_batch(data, 1, 3),
    "frame_offsets": frame_offsets,
}


@pytest.mark.parametrize("reader", READERS)
@given(data=st.binary(max_size=100), has_header=st.booleans())
def test_any_file_and_any_batch_is_read_or_refused(reader: str, data: bytes, has_header: bool) -> None:
    with contextlib.suppress(EditLogError):
        READERS[reader](segment_bytes(-63, [data]) if has_header else data)


@given(st.data())
def test_a_segment_with_damage_gives_ops_of_those_that_were_written_and_then_an_error(
    data: st.DataObject,
) -> None:
    ops = data.draw(st.lists(any_op(NEWEST_LAYOUT), min_size=1, max_size=4))
    whole = bytearray(segment_bytes(NEWEST_LAYOUT, [encode_op(op, NEWEST_LAYOUT) for op in ops]))
    at = data.draw(st.integers(8, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    read = []
    with pytest.raises(EditLogError):
        for op in iter_segment(bytes(whole)):
            read.append(op)
    assert read == ops[: len(read)] and len(read) < len(ops)


HUGE = struct.pack(">i", 0x7FFFFFFF)


@pytest.mark.parametrize(
    ("cls", "body"),
    [
        (ConcatDelete, struct.pack(">H", 0) + HUGE),
        (ConcatDelete, struct.pack(">H", 0) + struct.pack(">i", -1)),
        (ConcatDelete, struct.pack(">H", 0) + struct.pack(">i", 1_000_000)),
        (Rename, struct.pack(">HHq", 0, 0, 0) + HUGE),
        (AddErasureCodingPolicy, struct.pack(">Hiii", 0, 1, 1, 1) + HUGE),
        (UpdateBlocks, struct.pack(">H", 0) + bytes.fromhex("8c7fffffff")),
        (UpdateBlocks, struct.pack(">H", 0) + bytes.fromhex("8d0f4240")),
        (UpdateBlocks, struct.pack(">H", 0) + bytes.fromhex("87ff")),
        (UpdateMasterKey, bytes.fromhex("00008c7fffffff")),
        (UpdateMasterKey, bytes.fromhex("0000fe")),
        (Mkdir, encode_op(MKDIR, -63)[13:-4][:-5] + HUGE),
        (Mkdir, encode_op(MKDIR, -63)[13:-4][:-1] + b"\xff\xff\xff\xff\x07"),
        (Add, encode_op(FILE, -56)[13:-4][:38] + HUGE),
    ],
    ids=lambda case: case.hex()[-12:] if isinstance(case, bytes) else case.__name__,
)
def test_a_count_or_length_beyond_what_is_there_is_refused_before_it_takes_memory(
    cls: type[EditOp], body: bytes
) -> None:
    frame = encode_frame(cls.opcode, 1, body + bytes(1000))
    tracemalloc.start()
    try:
        with pytest.raises(BrokenOp, match=r"a list of|a key of|a field of|a message of"):
            decode_op(frame, -67)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_attributes_of_a_new_file_with_a_path_are_refused() -> None:
    body = encode_op(MKDIR, -63)[13:-4]
    assert body[-1:] == b"\0"
    with pytest.raises(BrokenOp, match="include a path"):
        decode_op(encode_frame(Mkdir.opcode, 1, body[:-1] + b"\x03\x0a\x01x"), -63)


def test_an_enumerated_value_that_nobody_knows_is_refused() -> None:
    body = encode_op(MKDIR, -63)[13:-4][:-1]
    with pytest.raises(BrokenOp, match="5 is not a valid XAttrNamespace"):
        decode_op(encode_frame(Mkdir.opcode, 1, body + b"\x07\x12\x05\x08\x05\x12\x01a"), -63)


@pytest.mark.parametrize(
    ("cls", "body", "reason"),
    [
        (Append, struct.pack(">HHHBHi", 0, 0, 0, 2, 0, -2), "a boolean is encoded as 2"),
        (AddCachePool, struct.pack(">HIHi", 0, 0x40, 0, -2), "flags 0x40 of CachePool contain unknown bits"),
        (
            ModifyCacheDirective,
            struct.pack(">qIHi", 1, 0x10, 0, -2),
            "flags 0x10 of CacheDirective contain unknown bits",
        ),
        (SetQuotaByStorageType, struct.pack(">Hiq", 0, 6, 1), "6 is not a valid StorageType"),
        (Rename, struct.pack(">HHqi", 0, 0, 0, 1) + b"\3", "3 is not a valid RenameOption"),
        (CancelDelegationToken, b"\1" + bytes(7), "a token of version 1"),
        (Mkdir, encode_op(MKDIR, -63)[13:-4][:-5] + b"\0\0\0\1\x80", "list begins with 0x80"),
        (SetAcl, b"\0", "has no path"),
        (SetAcl, b"\x0c\x0a\0\x12\x08\x08\4\x10\0\x18\0\x22\0", "4 is not a valid AclType"),
        (SetAcl, b"\x0a\x0a\0\x12\x06\x08\0\x10\0\x18\x08", "8 is not a valid set of permissions"),
        (
            SetAcl,
            b"\x08\x0a\0\x12\x04\x08\0\x10\0",
            "field 3 of a message must be a number and occur exactly once",
        ),
        (SetXAttr, b"\x04\x12\x02\x08\0", "has no name"),
        (SetXAttr, b"\x04\x0a\0\x0a\0", "field 1 of a message occurs 2 times"),
        (SetXAttr, b"\x02\x1a\0", r"unknown fields: \[3\]"),
        (SetXAttr, b"\x02\x08\0", "field 1 of a message must be bytes"),
        (SetXAttr, b"\x82\0\x0a\0", "a message of 2 bytes"),
    ],
    ids=lambda case: case.__name__ if isinstance(case, type) else None,
)
def test_a_field_that_says_what_nobody_can_mean_is_refused(
    cls: type[EditOp], body: bytes, reason: str
) -> None:
    with pytest.raises(BrokenOp, match=reason):
        decode_op(encode_frame(cls.opcode, 1, body + bytes(6)), -67)


def test_a_key_of_more_than_a_megabyte_is_refused_on_both_ways() -> None:
    with pytest.raises(BrokenOp, match=f"a key of {KEY_BYTES_MAX + 1} bytes"):
        encode_op(UpdateMasterKey(txid=1, key=DelegationKey(1, 1, bytes(KEY_BYTES_MAX + 1))), -67)
    body = b"\1\1" + write_vint(KEY_BYTES_MAX + 1) + bytes(KEY_BYTES_MAX + 1)
    with pytest.raises(BrokenOp, match=f"a key of {KEY_BYTES_MAX + 1} bytes"):
        decode_op(encode_frame(UpdateMasterKey.opcode, 1, body), -67)
    decode_op(encode_op(UpdateMasterKey(txid=1, key=DelegationKey(1, 1, bytes(KEY_BYTES_MAX))), -67), -67)


def test_no_op_is_read_from_less_than_all_of_its_bytes() -> None:
    for op in [*sample_ops(), *newer_ops()]:
        body = encode_op(op, -67)[13:-4]
        for size in range(len(body)):
            with pytest.raises(BrokenOp, match=op.name):
                decode_op(encode_frame(op.opcode, 1, body[:size]), -67)


def test_a_message_of_more_fields_than_anybody_needs_is_refused() -> None:
    fields = b"\x12\0" * (FIELDS_MAX + 1)
    with pytest.raises(BrokenOp, match=f"more than {FIELDS_MAX} fields"):
        decode_op(encode_frame(SetXAttr.opcode, 1, write_varint(len(fields)) + fields), -67)
