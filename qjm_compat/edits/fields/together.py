"""Writing the fields of a value together: numbers that stand side by side take one call, not one each."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Protocol


class Writable(Protocol):
    """What is needed of a kind of field. `form` is struct's letter for a number of fixed width, or empty."""

    @property
    def write(self) -> Callable[[Any], bytes]: ...
    @property
    def form(self) -> str: ...


Writer = Callable[[Any], bytes]


def writer_of(fields: Sequence[tuple[str, Writable]]) -> Writer:
    """Writes these fields of whatever has them, one after the other."""
    parts = list(_parts(fields))
    if len(parts) == 1:
        return parts[0]
    return lambda value: b"".join([part(value) for part in parts])


def _parts(fields: Sequence[tuple[str, Writable]]) -> Iterator[Writer]:
    for are_numbers, some in groupby(fields, lambda field: bool(field[1].form)):
        run = list(some)
        if are_numbers:
            yield _numbers(tuple(map(itemgetter(0), run)), "".join([kind.form for _, kind in run]))
        else:
            yield from [_one(name, kind.write) for name, kind in run]


def _numbers(names: Sequence[str], forms: str) -> Writer:
    get, pack = attrgetter(*names), struct.Struct(f">{forms}").pack
    if len(names) == 1:
        return lambda value: pack(get(value))
    return lambda value: pack(*get(value))


def _one(name: str, write: Writer) -> Writer:
    get = attrgetter(name)
    return lambda value: write(get(value))
