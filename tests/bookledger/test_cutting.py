"""The input of `ledger append`, cut into records."""

from __future__ import annotations

from io import BufferedReader, BytesIO, RawIOBase
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import ENTRY_BYTES_MAX
from bookledger.cli.payloads.cutting import DELIMITER_BYTES_MAX, Delimiter, delimited


class Trickle(RawIOBase):
    """A pipe that gives so many bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data, self._step = BytesIO(data), step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._data.read(min(self._step, len(buffer)))
        buffer[: len(got)] = got
        return len(got)


def cut(data: bytes, delimiter: bytes, step: int) -> list[bytes]:
    return list(delimited(BufferedReader(Trickle(data, step)), delimiter))


@given(st.binary(max_size=60), st.sampled_from([b"\0", b"\r\n", b"aab", b"\0\0"]), st.integers(1, 7))
def test_records_do_not_depend_on_how_the_input_comes(data: bytes, delimiter: bytes, step: int) -> None:
    data = data.replace(b"\x01", delimiter).replace(b"\x02", b"a")
    whole = data.split(delimiter)
    assert cut(data, delimiter, step) == (whole if whole[-1] else whole[:-1])


def test_a_record_is_given_as_soon_as_its_delimiter_is_there() -> None:
    pipe = Trickle(b"one\0two\0", 4)
    assert next(delimited(BufferedReader(pipe), b"\0")) == b"one"
    assert pipe._data.tell() == 4


def test_a_record_without_an_end_is_held_to_the_limit_of_an_entry_and_no_further() -> None:
    first = next(delimited(BufferedReader(Trickle(bytes(3 * ENTRY_BYTES_MAX), 1 << 16)), b"x"))
    assert len(first) == ENTRY_BYTES_MAX + 1, "which the writer refuses"
    whole = b"y" * ENTRY_BYTES_MAX
    assert cut(whole + b"xz", b"x", 1 << 16) == [whole, b"z"]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (r"\0", b"\0"),
        (r"\r\n", b"\r\n"),
        (r"\t|\\", b"\t|\\"),
        (r"\x1eE", b"\x1eE"),
        ("é", b"\xc3\xa9"),
        ("n", b"n"),
    ],
)
def test_a_delimiter_is_text_with_escapes(text: str, delimiter: bytes) -> None:
    assert Delimiter().convert(text, None, None) == delimiter


@pytest.mark.parametrize("text", ["", "\\", r"\q", r"\x1", "x" * (DELIMITER_BYTES_MAX + 1)])
def test_what_is_no_delimiter_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Delimiter().convert(text, None, None)
