"""A frame is exactly what Hadoop writes, or it is refused with the offset and the reason."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import (
    OP_BYTES_MAX,
    OP_BYTES_MIN,
    PREALLOCATION_BYTES,
    BrokenFrame,
    BrokenHeader,
    decode_header,
    encode_frame,
    encode_header,
    frame_at,
    segment_bytes,
)
from tests.qjm_compat.edits.made_frames import batch, damaged, frame

START_1 = bytes.fromhex("180000000c00000000000000017043f0b7")
END_11 = bytes.fromhex("170000000c000000000000000bb7e6cc9c")
START_12 = bytes.fromhex("180000000c000000000000000c0ef28c0a")


def test_a_segment_begins_as_a_name_node_began_it() -> None:
    assert segment_bytes(-63, [START_1]) == bytes.fromhex("ffffffc100000000") + START_1
    assert encode_header(-67) == bytes.fromhex("ffffffbd00000000")


@pytest.mark.parametrize(
    ("opcode", "txid", "golden"), [(24, 1, START_1), (23, 11, END_11), (24, 12, START_12)]
)
def test_a_frame_is_the_one_that_a_name_node_wrote(opcode: int, txid: int, golden: bytes) -> None:
    assert encode_frame(opcode, txid, b"") == golden
    assert frame_at(golden, 0) == (opcode, txid, len(golden))


@given(
    st.integers(0, 254), st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=50), st.binary(max_size=9)
)
def test_a_frame_is_found_wherever_it_stands(opcode: int, txid: int, body: bytes, before: bytes) -> None:
    data = before + encode_frame(opcode, txid, body) + before
    assert frame_at(data, len(before)) == (opcode, txid, len(data) - len(before))


@given(st.data())
def test_no_frame_is_believed_with_any_bit_of_it_another(data: st.DataObject) -> None:
    whole = frame(7)
    with pytest.raises(BrokenFrame) as caught:
        frame_at(damaged(whole, data.draw(st.integers(0, len(whole) - 1))), 0)
    assert caught.value.offset == 0


@pytest.mark.parametrize("size", range(len(frame(7))))
def test_a_frame_that_is_cut_short_is_refused(size: int) -> None:
    with pytest.raises(BrokenFrame, match="at offset 3: the op is cut short"):
        frame_at(b"abc" + frame(7)[:size], 3)


def _with_length(length: int) -> bytes:
    start = struct.pack(">BIq", 3, length, 1)
    return start + struct.pack(">I", crc32(start)) + bytes(100)


@pytest.mark.parametrize("length", [0, 11, OP_BYTES_MAX - 4, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_length_that_no_op_can_have_is_refused_before_it_is_used(length: int) -> None:
    with pytest.raises(
        BrokenFrame, match=f"claims a length of {length}; it must be 12 to {OP_BYTES_MAX - 5}"
    ):
        frame_at(_with_length(length), 0)


def test_the_smallest_and_the_largest_op_can_be_written_and_no_larger_one() -> None:
    assert len(encode_frame(3, 1, b"")) == OP_BYTES_MIN
    largest = encode_frame(3, 1, bytes(OP_BYTES_MAX - OP_BYTES_MIN))
    assert frame_at(largest, 0)[2] == len(largest) == OP_BYTES_MAX
    with pytest.raises(ValueError, match="exceeds the maximum size of an op"):
        encode_frame(3, 1, bytes(OP_BYTES_MAX - OP_BYTES_MIN + 1))


def test_a_terminator_is_no_op_whatever_follows_it() -> None:
    with pytest.raises(BrokenFrame, match="the terminator was found"):
        frame_at(encode_frame(0xFF, 1, b""), 0)


@pytest.mark.parametrize("layout_version", [-56, -63, -67, -70, -(1 << 31)])
def test_a_header_says_its_layout_also_one_that_is_not_known_yet(layout_version: int) -> None:
    assert decode_header(encode_header(layout_version) + batch(1, 1)) == layout_version


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (encode_header(-63)[:7], "cut short"),
        (b"\xff" * 8, "-1 is not a layout"),
        (bytes(8), "0 is not a layout"),
        (struct.pack(">ii", 63, 0), "63 is not a layout"),
        (struct.pack(">ii", -55, 0), "too old"),
        (struct.pack(">ii", -63, 1), "1 bytes of layout flags"),
    ],
)
def test_what_is_no_header_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(BrokenHeader, match=reason):
        decode_header(data)


def test_a_segment_that_is_being_written_is_padded_to_whole_megabytes() -> None:
    for count in (0, 1, 2000):
        plain, padded = (
            segment_bytes(-63, [batch(1, count)]),
            segment_bytes(-63, [batch(1, count)], padding=True),
        )
        assert padded.startswith(plain)
        assert len(padded) == PREALLOCATION_BYTES
        assert set(padded[len(plain) :]) == {0xFF}
