"""Plans print as the Python that makes them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any


class Printed:
    """Prints as a call with the fields that are not at their default."""

    def __repr__(self) -> str:
        arguments = [f"{f.name}={getattr(self, f.name)!r}" for f in given(self)]
        return f"{type(self).__name__}({', '.join(arguments)})"


def given(item: Any) -> Iterator[Field[Any]]:
    """The fields that are not at their default."""
    for f in fields(item):
        if f.default is MISSING or getattr(item, f.name) != f.default:
            yield f
