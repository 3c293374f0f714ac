"""Field types of ops: each decodes and encodes its bytes, and converts its value to JSON.

A dataclass declares its encoding through annotations: it is encoded as its fields, in order.

    @dataclass(frozen=True, slots=True)
    class Block:
        block_id: I64
        length_bytes: I64
        genstamp: I64

`record(Block)` is then the type of one Block, and `array(record(Block), …)` the type of a sequence of Blocks. A reader
takes the op's body and an offset, and returns the value and its end offset. Invalid bytes raise BrokenOp (or
struct.error or IndexError at the end of the body, which `codec` turns into BrokenOp).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, Generic, TypeVar, get_args, get_type_hints

from ..errors import BrokenOp
from .encoders import encoder_of
from .java import (
    VINT_ONE_BYTE_MAX,
    read_text,
    read_utf8,
    read_vint,
    read_vlong,
    write_text,
    write_utf8,
    write_vint,
    write_vlong,
)

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)


def _as_it_is(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class FieldType(Generic[T]):
    """One encoding of a value."""

    read: Callable[[bytes, int], tuple[T, int]]
    write: Callable[[T], bytes]
    to_json: Callable[[T], object] = _as_it_is
    size_min: int = 1
    """The minimum encoded size. The count of a sequence is checked against the remaining bytes before any element is
    read."""
    form: str = ""
    """The `struct` format letter of a fixed-width number; adjacent fields of this kind are packed in one call."""
    length_form: str = ""
    """The `struct` format letter of the length, if the encoding is a length followed by bytes. The bytes are the result
    of `raw`, or the value itself if `raw` is None."""
    raw: Callable[[T], bytes] | None = None
    empty: bytes = b""
    """The encoding of a value without elements, if such values are the most common case."""


def _number(form: str, to_json: Callable[[int], object] = _as_it_is) -> FieldType[int]:
    packed = struct.Struct(f">{form}")
    unpack, size = packed.unpack_from, packed.size

    def read(data: bytes, at: int) -> tuple[int, int]:
        return unpack(data, at)[0], at + size

    return FieldType(read, packed.pack, to_json, size, form)


_U16 = struct.Struct(">H")
_ONE_BYTE = [bytes([value]) for value in range(VINT_ONE_BYTE_MAX + 1)]


def take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    raw = data[at : at + size]
    if size < 0 or len(raw) < size:
        raise BrokenOp(f"a field of {size} bytes was announced, but only {len(raw)} bytes are left")
    return raw, at + size


def _read_short_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    return take(data, at + 2, _U16.unpack_from(data, at)[0])


def _write_short_bytes(value: bytes) -> bytes:
    return _U16.pack(len(value)) + value


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    raw, end = take(data, at + 2, _U16.unpack_from(data, at)[0])
    return read_utf8(raw), end


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    size, begin = (data[at], at + 1) if data[at] <= VINT_ONE_BYTE_MAX else read_vint(data, at)
    raw, end = take(data, begin, size)
    return read_text(raw), end


def _write_string(text: str) -> bytes:
    raw = write_utf8(text)
    return _U16.pack(len(raw)) + raw


def _write_text(text: str) -> bytes:
    raw = write_text(text)
    size = len(raw)
    return (_ONE_BYTE[size] if size <= VINT_ONE_BYTE_MAX else write_vint(size)) + raw


def _read_flag(data: bytes, at: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise BrokenOp(f"a boolean is encoded as {data[at]}")
    return data[at] == 1, at + 1


def _write_flag(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def _hex(value: bytes) -> object:
    return value.hex()


def _octal(mode: int) -> object:
    return f"{mode & 0xFFFF:04o}"


_MODE = _number("h", _octal)
STRING = FieldType(_read_string, _write_string, size_min=2, length_form="H", raw=write_utf8)

NUMBER_8 = _number("b")
NUMBER_32 = _number("i")

I8 = Annotated[int, NUMBER_8]
I16 = Annotated[int, _number("h")]
I32 = Annotated[int, NUMBER_32]
I64 = Annotated[int, _number("q")]
Mode = Annotated[int, _MODE]
Flag = Annotated[bool, FieldType(_read_flag, _write_flag, form="?")]
String = Annotated[str, STRING]
Text = Annotated[str, FieldType(_read_text, _write_text)]
ShortBytes = Annotated[bytes, FieldType(_read_short_bytes, _write_short_bytes, _hex, 2, length_form="H")]
VInt = Annotated[int, FieldType(read_vint, write_vint)]
VLong = Annotated[int, FieldType(read_vlong, write_vlong)]


def fields_of(cls: type) -> list[tuple[str, FieldType[Any]]]:
    """Returns a (name, kind) pair for each encoded field of a dataclass, in order."""
    hints = get_type_hints(cls, include_extras=True)
    found = [(field.name, _kind_in(hints[field.name])) for field in dataclasses.fields(cls)]
    return [(name, kind) for name, kind in found if kind is not None]


def _kind_in(hint: object) -> FieldType[Any] | None:
    """Returns the field type that an annotation declares, even if the annotation also allows None. Returns None if it
    declares no field type."""
    named = [hint, *get_args(hint)]
    kinds = [
        extra for one in named for extra in getattr(one, "__metadata__", ()) if isinstance(extra, FieldType)
    ]
    return kinds[0] if kinds else None


def record(cls: type[T]) -> FieldType[T]:
    """Returns the type of a dataclass that is encoded as the sequence of its fields."""
    fields = fields_of(cls)
    readers = [kind.read for _, kind in fields]

    def read(data: bytes, at: int) -> tuple[T, int]:
        values = []
        for reader in readers:
            value, at = reader(data, at)
            values.append(value)
        return cls(*values), at

    def to_json(value: T) -> object:
        return {name: kind.to_json(getattr(value, name)) for name, kind in fields}

    return FieldType(read, encoder_of(fields), to_json, sum(kind.size_min for _, kind in fields))


def flagged(cls: type[T], required: int) -> FieldType[T]:
    """Returns the type of a dataclass that is encoded as its first `required` fields, then a bit set that indicates
    which of the other fields are present (not None), then those fields."""
    fields = fields_of(cls)
    always, maybe = fields[:required], fields[required:]
    bits = struct.Struct(">I")

    def read(data: bytes, at: int) -> tuple[T, int]:
        values: list[object] = []
        for _, kind in always:
            value, at = kind.read(data, at)
            values.append(value)
        flags, at = bits.unpack_from(data, at)[0], at + bits.size
        if flags >> len(maybe):
            raise BrokenOp(f"flags {flags:#x} of {cls.__name__} contain unknown bits")
        for bit, (_, kind) in enumerate(maybe):
            value, at = kind.read(data, at) if flags >> bit & 1 else (None, at)
            values.append(value)
        return cls(*values), at

    def write(value: T) -> bytes:
        there = [getattr(value, name) is not None for name, _ in maybe]
        parts = [kind.write(getattr(value, name)) for name, kind in always]
        parts.append(bits.pack(sum(1 << bit for bit, is_there in enumerate(there) if is_there)))
        parts += [
            kind.write(getattr(value, name)) for (name, kind), yes in zip(maybe, there, strict=True) if yes
        ]
        return b"".join(parts)

    def to_json(value: T) -> object:
        shown = [(name, kind, getattr(value, name)) for name, kind in fields]
        return {name: kind.to_json(one) for name, kind, one in shown if one is not None}

    return FieldType(read, write, to_json, sum(kind.size_min for _, kind in always) + bits.size)


def array(of: FieldType[T], count_max: int) -> FieldType[tuple[T, ...]]:
    """Returns the type of a sequence that is encoded as a four-byte count, followed by that many values of one type."""
    count_of = struct.Struct(">i")
    none = count_of.pack(0)

    def read(data: bytes, at: int) -> tuple[tuple[T, ...], int]:
        count, at = count_of.unpack_from(data, at)[0], at + count_of.size
        check_count(count, min(count_max, (len(data) - at) // of.size_min))
        values = []
        for _ in range(count):
            value, at = of.read(data, at)
            values.append(value)
        return tuple(values), at

    def write(values: tuple[T, ...]) -> bytes:
        if not values:
            return none
        check_count(len(values), count_max)
        return b"".join([count_of.pack(len(values)), *map(of.write, values)])

    def to_json(values: tuple[T, ...]) -> object:
        return [of.to_json(value) for value in values]

    return FieldType(read, write, to_json, count_of.size, empty=none)


def check_count(count: int, count_max: int) -> None:
    if not 0 <= count <= count_max:
        raise BrokenOp(f"a list of {count} elements is invalid: only 0 to {count_max} are allowed")


def to_enum(cls: type[E], value: int) -> E:
    """Returns the member with this number. Raises BrokenOp if it does not exist."""
    try:
        return cls(value)
    except ValueError as error:
        raise BrokenOp(f"{value} is not a valid {cls.__name__}") from error


def enum(cls: type[E], number: FieldType[int]) -> FieldType[E]:
    """Returns the type of an enum's members, which are encoded as their numbers and, in JSON, as their names."""

    def read(data: bytes, at: int) -> tuple[E, int]:
        value, end = number.read(data, at)
        return to_enum(cls, value), end

    return FieldType(read, number.write, lambda value: value.name, number.size_min, number.form)
