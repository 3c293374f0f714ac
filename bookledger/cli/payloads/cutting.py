"""Cuts input into records: by lines, by another delimiter, by size, or as JSON lines."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import click

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import LedgerError

from ..messages.sizes import format_bytes

T = TypeVar("T")

JSON_LINE_BYTES_MAX = 6 * ENTRY_BYTES_MAX + 4096
"""Size of a line that holds the largest entry, with each of its bytes escaped."""

DELIMITER_BYTES_MAX = 1024
CHUNK_BYTES = 64 * 1024

ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}
_ESCAPED = re.compile(rb"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)


class Delimiter(click.ParamType):  # type: ignore[type-arg]
    r"""Bytes that end a record, as text with the escapes \n, \r, \t, \0, \\ and \xHH."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            found = _ESCAPED.sub(_unescaped, os.fsencode(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not 1 <= len(found) <= DELIMITER_BYTES_MAX:
            self.fail(
                f"a delimiter must not be empty, and may have at most {format_bytes(DELIMITER_BYTES_MAX)}.",
                param,
                ctx,
            )
        return found


def _unescaped(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if len(name) == 3:
        return bytes.fromhex(name[1:].decode())
    if name not in ESCAPES:
        raise ValueError(
            rf"\{os.fsdecode(name)} is not an escape; the escapes are \n, \r, \t, \0, \\ and \xHH."
        )
    return ESCAPES[name]


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields one record per line. A record that is too long is cut where it exceeds the limit."""
    while line := file.readline(ENTRY_BYTES_MAX + 1):
        yield line.removesuffix(b"\n")


def of_size(file: BinaryIO, record_bytes: int) -> Iterator[bytes]:
    """Yields records of this size; the last one may be shorter."""
    while chunk := file.read(record_bytes):
        yield chunk


def delimited(file: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Yields records that end with the delimiter, each as soon as it is read; the last one may end at the end of the
    input instead.

    A record that is too long is cut where it exceeds the limit.
    """
    held = bytearray()
    while chunk := file.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        start, searched = 0, max(0, len(held) - len(delimiter) + 1)
        held += chunk
        while (end := held.find(delimiter, max(start, searched))) >= 0:
            yield bytes(held[start:end])
            start = end + len(delimiter)
        del held[:start]
        if len(held) > ENTRY_BYTES_MAX + len(delimiter):
            yield bytes(held[: ENTRY_BYTES_MAX + 1])
            del held[: ENTRY_BYTES_MAX + 1]
    if held:
        yield bytes(held)


def json_lines(file: BinaryIO, decoded: Callable[[object], T]) -> Iterator[T]:
    """Decodes JSON lines. Raises LedgerError with the line number if `decoded` raises ValueError."""
    number = 0
    while line := file.readline(JSON_LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > JSON_LINE_BYTES_MAX:
            raise LedgerError(f"line {number} of the input has more than {format_bytes(JSON_LINE_BYTES_MAX)}")
        try:
            yield decoded(_object_in(line))
        except ValueError as error:
            raise LedgerError(f"line {number} of the input: {error}") from None


def _object_in(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid UTF-8 from byte {error.start + 1} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON from character {error.pos + 1} on") from None


def payload_of(line: object) -> bytes:
    """Returns the payload of a decoded line. Raises ValueError."""
    match line:
        case {"payload_base64": _, "payload": _}:
            pass
        case {"payload_base64": str(encoded)}:
            return base64_in(encoded, "payload_base64")
        case {"payload": str(text)}:
            return text.encode()
    raise ValueError('an entry must be an object with either "payload_base64" or, as text, "payload"')


def base64_in(encoded: object, name: str) -> bytes:
    """Returns the bytes of a value in base64. Raises ValueError."""
    try:
        return base64.b64decode(encoded, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # the original message mentions only padding and digits
        raise ValueError(f"{name} is not base64") from None
