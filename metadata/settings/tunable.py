"""Tunable settings: fields of frozen dataclasses with a range, a unit and a description. Pure."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any

_TUNABLE, _ELSEWHERE = "tunable", "elsewhere"

UNITS = (
    ("bytes_per_second", "bytes a second"),
    ("seconds", "s"),
    ("bytes", "bytes"),
    ("ratio", "share"),
    ("share", "share"),
)
"""The unit for each word that a setting's name may contain; the first match counts."""

COUNT_MAX = 2**31 - 1
"""Default upper bound of a count."""

SECONDS_MAX = 1e9
"""Upper bound of durations: longer than any realistic wait."""


@dataclass(frozen=True, slots=True)
class Tunable:
    """Type, range and `description` (meaning and trade-off) of a setting. The range applies only to numbers."""

    description: str
    kind: type
    least: float
    most: float


def tunable(
    default: Any, description: str, least: float = 0, most: float = COUNT_MAX, *, kind: type | None = None
) -> Any:
    """Returns a dataclass field for a tunable setting. `kind`: its type, if the default (such as None) does not imply
    it."""
    one = Tunable(description, kind or type(default), least, most)
    return field(default=default, metadata={_TUNABLE: one})


def set_by_option(default: Any, where: str) -> Any:
    """Returns a field that is set by a command's option; `where` names the option, as in a settings file."""
    return field(default=default, metadata={_ELSEWHERE: where})


def tunables_of(kind: type) -> dict[str, Tunable]:
    """Returns the settings by name, in the order of the fields."""
    return {one.name: one.metadata[_TUNABLE] for one in fields(kind) if _TUNABLE in one.metadata}


def elsewhere_of(kind: type) -> dict[str, str]:
    """Returns the fields that are set by an option, with that option's name."""
    return {one.name: one.metadata[_ELSEWHERE] for one in fields(kind) if _ELSEWHERE in one.metadata}


def defaults_of(kind: type) -> dict[str, Any]:
    """Returns the defaults of all settings."""
    return {one.name: one.default for one in fields(kind) if _TUNABLE in one.metadata}


def required_of(kind: type) -> list[str]:
    """Returns the fields without a default."""
    return [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]


def unit_of(name: str, one: Tunable) -> str:
    """Returns the unit of a setting's value, as text for people."""
    if one.kind is bool:
        return "true or false"
    if issubclass(one.kind, Enum):
        return " or ".join(str(value.value) for value in one.kind)
    return next((unit for part, unit in UNITS if part in name), "")


def convert_value(name: str, one: Tunable, value: Any) -> Any:
    """Converts a value for its field, and checks it. Raises ValueError if it has the wrong type or is out of range."""
    if issubclass(one.kind, Enum):
        known = {each.value: each for each in one.kind}
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        return known[value]
    if one.kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (one.kind is int and not isinstance(value, int)):
        raise ValueError(
            f"{name} must be {'a whole number' if one.kind is int else 'a number'}, not {value!r}"
        )
    if not one.least <= value <= one.most:
        raise ValueError(f"{name} is {value}; it must be from {format_range(name, one)}")
    return float(value) if one.kind is float else value


def format_range(name: str, one: Tunable) -> str:
    """Returns the range, as text for people."""
    format_value = _format_bytes if "bytes" in name else _format_number
    return f"{format_value(one.least)} to {format_value(one.most)}"


def to_toml(value: Any) -> Any:
    """Returns a value in the form used in a settings file."""
    return value.value if isinstance(value, Enum) else value


def _format_bytes(number: float) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if isinstance(number, int) and number >= 2**power and not number % 2**power:
            return f"{number} ({number >> power} {unit})"
    return _format_number(number)


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
