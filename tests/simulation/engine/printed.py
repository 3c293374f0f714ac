"""Plans print as the Python that makes them again."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True)
class Value:
    """Each class below it is a frozen dataclass. Prints as a call with the fields that are not at their default."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, repr=False)(cls)

    def __repr__(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in given(self).items()]
        return f"{type(self).__name__}({', '.join(arguments)})"


class Listing(Value):
    """Prints each field on a line of its own, and so each item of its lists."""

    def __repr__(self) -> str:
        lines = [f"    {name}={_shown(value)},\n" for name, value in given(self).items()]
        return f"{type(self).__name__}(\n{''.join(lines)})"


def given(item: Any) -> dict[str, Any]:
    """The fields that are not at their default."""
    values = {f.name: getattr(item, f.name) for f in fields(item)}
    return {
        f.name: values[f.name] for f in fields(item) if f.default is MISSING or values[f.name] != f.default
    }


def _shown(value: Any) -> str:
    if not (isinstance(value, tuple) and value and isinstance(value[0], Value)):
        return repr(value)
    items = "".join(f"        {item!r},\n" for item in value)
    return f"(\n{items}    )"
