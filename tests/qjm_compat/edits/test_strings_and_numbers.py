"""Strings and numbers have the bytes that Java and Hadoop give them, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import BrokenOp
from qjm_compat.edits.fields.field_types import Text, _kind_in
from qjm_compat.edits.fields.java import read_utf8, read_vint, read_vlong, write_utf8, write_vint, write_vlong
from qjm_compat.edits.fields.protobuf import (
    read_delimited,
    read_message,
    read_varint,
    write_message,
    write_varint,
)
from tests.qjm_compat.edits.made_ops import java_strings, numbers_64


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (127, "7f"),
        (-112, "90"),
        (128, "8f80"),
        (255, "8fff"),
        (256, "8e0100"),
        (-113, "8770"),
        (-256, "87ff"),
        (-257, "860100"),
        ((1 << 31) - 1, "8c7fffffff"),
        (-(1 << 31), "847fffffff"),
        ((1 << 63) - 1, "887fffffffffffffff"),
        (-(1 << 63), "807fffffffffffffff"),
    ],
)
def test_a_number_of_variable_length_has_these_bytes(value: int, raw: str) -> None:
    assert write_vlong(value).hex() == raw
    assert read_vlong(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@given(numbers_64, st.binary(max_size=3))
def test_a_number_comes_back_from_where_it_stands(value: int, around: bytes) -> None:
    raw = around + write_vlong(value)
    assert read_vlong(raw + around, len(around)) == (value, len(raw))


@given(st.binary(min_size=1, max_size=10))
def test_bytes_are_a_number_only_if_it_would_be_written_so(raw: bytes) -> None:
    try:
        value, end = read_vlong(raw, 0)
    except BrokenOp:
        return
    assert write_vlong(value) == raw[:end]


@pytest.mark.parametrize(
    "raw", ["8f7f", "8e00ff", "876f", "87", "8e01", "88ffffffffffffffff", "80ffffffffffffffff"]
)
def test_a_number_written_otherwise_or_cut_short_is_refused(raw: str) -> None:
    with pytest.raises(BrokenOp):
        read_vlong(bytes.fromhex(raw), 0)


def test_a_number_that_is_too_large_is_refused_on_both_ways() -> None:
    for value in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(BrokenOp, match="32 bits"):
            write_vint(value)
        with pytest.raises(BrokenOp, match="32 bits"):
            read_vint(write_vlong(value), 0)
    for value in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(BrokenOp, match="64 bits"):
            write_vlong(value)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("", ""),
        ("/a", "2f61"),
        ("\0", "00"),
        ("é€", "c3a9e282ac"),
        ("𝄞", "eda0b4edb49e"),
        ("\ud834x", "eda0b478"),
    ],
)
def test_a_string_has_hadoops_own_utf8(text: str, raw: str) -> None:
    assert write_utf8(text).hex() == raw
    assert read_utf8(bytes.fromhex(raw)) == text


@given(java_strings)
def test_any_string_of_java_comes_back(text: str) -> None:
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert read_utf8(write_utf8(text)) == joined


@pytest.mark.parametrize("raw", ["f09d849e", "c080", "ff", "c3", "eda0"])
def test_a_string_written_otherwise_is_refused(raw: str) -> None:
    with pytest.raises(BrokenOp, match="UTF-8"):
        read_utf8(bytes.fromhex(raw))


@given(st.binary(max_size=12))
def test_bytes_are_a_string_only_if_it_would_be_written_so(raw: bytes) -> None:
    try:
        text = read_utf8(raw)
    except BrokenOp:
        return
    assert write_utf8(text) == raw


def test_a_text_is_plain_utf8_behind_its_length() -> None:
    kind = _kind_in(Text)
    assert kind is not None
    assert kind.write("𝄞").hex() == "04f09d849e"
    assert kind.read(b"x\x04" + "𝄞".encode(), 1) == ("𝄞", 6)
    for raw in (b"\x05" + "𝄞".encode(), b"\x03" + "𝄞".encode(), b"\xff"):
        with pytest.raises(BrokenOp):
            kind.read(raw, 0)


@given(
    st.lists(
        st.tuples(st.integers(1, 2000), st.integers(0, (1 << 64) - 1) | st.binary(max_size=20)), max_size=5
    )
)
def test_a_message_comes_back_with_its_fields_in_order(fields: list[tuple[int, int | bytes]]) -> None:
    ordered = sorted(fields, key=lambda field: field[0])
    assert read_message(write_message(ordered)) == ordered
    if fields != ordered:
        with pytest.raises(BrokenOp, match="the way Hadoop encodes it"):
            read_message(write_message(fields))


@pytest.mark.parametrize(
    "raw",
    [
        "088000",  # 0 in two bytes
        "0d00000000",  # a field of four bytes
        "1205616263",  # cut short
        "080112ffffffffffffffffff01",  # longer than anything
    ],
)
def test_a_message_written_otherwise_is_refused(raw: str) -> None:
    with pytest.raises(BrokenOp):
        read_message(bytes.fromhex(raw))


def test_a_message_says_no_more_than_is_there() -> None:
    with pytest.raises(BrokenOp, match="but only 2 bytes are left"):
        read_delimited(b"\x03ab", 0)
    with pytest.raises(BrokenOp, match="more than 10 bytes"):
        read_varint(b"\xff" * 20, 0)
    assert write_varint(300).hex() == "ac02"
