"""Packs adjacent fixed-width numbers of a value in one call."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Protocol


class Writable(Protocol):
    """What a kind of field needs. `form` is struct's letter for a fixed-width number, or empty."""

    @property
    def write(self) -> Callable[[Any], bytes]: ...
    @property
    def form(self) -> str: ...


Writer = Callable[[Any], bytes]


def writer_of(fields: Sequence[tuple[str, Writable]]) -> Writer:
    """Returns a function that encodes these fields of a value, in sequence."""
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
