"""Plans print as the Python that makes them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, dataclass_transform


class Printed:
    """Prints as a call with the fields that are not at their default."""

    def __repr__(self) -> str:
        arguments = [f"{f.name}={getattr(self, f.name)!r}" for f in given(self)]
        return f"{type(self).__name__}({', '.join(arguments)})"


@dataclass_transform(frozen_default=True)
class Value(Printed):
    """Each class below it is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, repr=False)(cls)


def given(item: Any) -> Iterator[Field[Any]]:
    """The fields that are not at their default."""
    for f in fields(item):
        if f.default is MISSING or getattr(item, f.name) != f.default:
            yield f
