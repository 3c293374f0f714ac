"""Encodes the few protobuf messages inside ops: a length, and the fields in the order of their numbers.

Only varints and bytes occur. The code is hand-written, because a message must keep its exact bytes when it is decoded
and encoded again, and no library guarantees that.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BrokenOp

_VARINT = 0
_BYTES = 2
_VARINT_BYTES_MAX = 10

FIELDS_MAX = 64 * 1024
"""Maximum number of fields in one message, and therefore of entries in a list within it; Hadoop itself writes a few
dozen."""

Fields = list[tuple[int, int | bytes]]
"""Pairs of (field number, value), in the order in which they are encoded."""


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise BrokenOp(f"a varint has more than {_VARINT_BYTES_MAX} bytes")


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_message(data: bytes) -> Fields:
    """Decodes a message. Raises BrokenOp unless it is in canonical form (fields in order, shortest numbers)."""
    fields: Fields = []
    at = 0
    while at < len(data):
        if len(fields) == FIELDS_MAX:
            raise BrokenOp(f"a message has more than {FIELDS_MAX} fields")
        key, at = read_varint(data, at)
        size_or_value, at = read_varint(data, at)
        if key & 7 == _VARINT:
            fields.append((key >> 3, size_or_value))
        elif key & 7 == _BYTES and at + size_or_value <= len(data):
            fields.append((key >> 3, data[at : at + size_or_value]))
            at += size_or_value
        else:
            raise BrokenOp(f"field {key >> 3} of a message is truncated, or has the wrong wire type")
    numbers = [number for number, _ in fields]
    if numbers != sorted(numbers) or write_message(fields) != data:
        raise BrokenOp("a message is not encoded the way Hadoop encodes it")
    return fields


def write_message(fields: Iterable[tuple[int, int | bytes | None]]) -> bytes:
    """Encodes a message; omits fields that are None."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(write_varint(number << 3 | _VARINT) + write_varint(value))
        elif value is not None:
            parts.append(write_varint(number << 3 | _BYTES) + write_varint(len(value)) + value)
    return b"".join(parts)


def read_delimited(data: bytes, at: int) -> tuple[Fields, int]:
    """Decodes the length-delimited message at `at`; also returns its end."""
    size, begin = read_varint(data, at)
    if begin + size > len(data) or write_varint(size) != data[at:begin]:
        raise BrokenOp(
            f"a message of {size} bytes was announced, but only {len(data) - begin} bytes are left"
        )
    return read_message(data[begin : begin + size]), begin + size


def write_delimited(fields: Iterable[tuple[int, int | bytes | None]]) -> bytes:
    message = write_message(fields)
    return write_varint(len(message)) + message


def one_int(fields: Fields, number: int) -> int:
    """Returns the value of a required field."""
    found = [value for each, value in fields if each == number]
    if len(found) != 1 or not isinstance(found[0], int):
        raise BrokenOp(f"field {number} of a message must be a number and occur exactly once")
    return found[0]


def some_bytes(fields: Fields, number: int) -> list[bytes]:
    """Returns all values of a repeated field."""
    found = [value for each, value in fields if each == number]
    if not all(isinstance(value, bytes) for value in found):
        raise BrokenOp(f"field {number} of a message must be bytes")
    return [value for value in found if isinstance(value, bytes)]


def maybe_bytes(fields: Fields, number: int) -> bytes | None:
    """Returns the value of an optional field."""
    found = some_bytes(fields, number)
    if len(found) > 1:
        raise BrokenOp(f"field {number} of a message occurs {len(found)} times")
    return found[0] if found else None


def refuse_others(fields: Fields, known: Iterable[int]) -> None:
    unknown = {number for number, _ in fields} - set(known)
    if unknown:
        raise BrokenOp(f"a message has unknown fields: {sorted(unknown)}")
