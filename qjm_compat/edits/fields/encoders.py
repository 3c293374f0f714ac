"""Compiles the encoder of a sequence of fields into one function, as dataclasses compile their methods.

A separate function for each sequence avoids calls for common types: one struct packs adjacent numbers, including the
length of a string that follows them. This takes half as long as one call per field.

    def encode(value):
        v0 = value.path
        v1 = raw0(v0)
        …
        return join([pack0(value.inode_id, len(v1)), v1, …])
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Writable(Protocol):
    """The encoding of a kind of field, given by the first of the following properties that is set."""

    @property
    def form(self) -> str:
        """The `struct` format letter of a fixed-width number; empty for any other field."""

    @property
    def length_form(self) -> str:
        """The `struct` format letter of the length, for a field encoded as a length and bytes; empty for any other
        field."""

    @property
    def raw(self) -> Callable[[Any], bytes] | None:
        """Converts a value to the bytes that follow its length; None if the value is already bytes."""

    @property
    def empty(self) -> bytes:
        """The result of `write` for a value without elements; empty if there is no shortcut for such values."""

    @property
    def write(self) -> Callable[[Any], bytes]: ...


Encoder = Callable[[Any], bytes]


def encoder_of(fields: Sequence[tuple[str, Writable]]) -> Encoder:
    """Returns a function that encodes these fields of a value, in sequence."""
    source = _EncoderSource()
    for name, kind in fields:
        source.add(f"value.{name}", kind)
    return source.compiled()


class _EncoderSource:
    """The source code of one encoder, and the objects that the code refers to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._parts: list[str] = []
        self._letters, self._numbers = "", list[str]()
        self._names: dict[str, object] = {"join": b"".join}

    def add(self, value: str, kind: Writable) -> None:
        """Adds a field to the encoder. `value` is the source expression that yields the field's value."""
        if kind.form:
            self._number(kind.form, value)
        elif kind.length_form:
            raw = self._local(value if kind.raw is None else f"{self._named(kind.raw)}({value})")
            self._number(kind.length_form, f"len({raw})")
            self._part(raw)
        elif kind.empty:
            elements = self._local(value)
            self._part(f"{self._named(kind.write)}({elements}) if {elements} else {kind.empty!r}")
        else:
            self._part(f"{self._named(kind.write)}({value})")

    def compiled(self) -> Encoder:
        self._end_of_numbers()
        body = [*self._lines, f"return join([{', '.join(self._parts)}])"]
        exec("\n    ".join(["def encode(value):", *body]), self._names)
        encode: Encoder = self._names["encode"]  # type: ignore[assignment]
        return encode

    def _number(self, letter: str, value: str) -> None:
        self._letters += letter
        self._numbers.append(value)

    def _part(self, expression: str) -> None:
        self._end_of_numbers()
        self._parts.append(expression)

    def _end_of_numbers(self) -> None:
        if self._numbers:
            pack = self._named(struct.Struct(f">{self._letters}").pack)
            self._parts.append(f"{pack}({', '.join(self._numbers)})")
            self._letters, self._numbers = "", []

    def _local(self, expression: str) -> str:
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {expression}")
        return name

    def _named(self, what: object) -> str:
        name = f"g{len(self._names)}"
        self._names[name] = what
        return name
