"""Reads settings from environment variables. A variable's name consists of BOOKLEDGER, the table and the setting, in
capitals and joined by underscores."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from .tunable import Tunable, convert_value, tunables_of

PREFIX = "BOOKLEDGER"

TRUE, FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")


class BadVariable(ValueError):
    """An environment variable has an invalid value; the message contains the variable's name and the reason."""


def variable_of(*names: str) -> str:
    """Returns the name of a setting's variable, such as BOOKLEDGER_LIMITS_POLLS_MAX; dashes become underscores."""
    return "_".join([PREFIX, *names]).upper().replace("-", "_")


def from_environment(kind: type, table: str) -> dict[str, Any]:
    """Returns the values of those dataclass fields that are set by environment variables. An empty variable sets
    nothing. Raises BadVariable."""
    found = {}
    for name, one in tunables_of(kind).items():
        variable = variable_of(table, name)
        if text := os.environ.get(variable):
            try:
                found[name] = convert_value(name, one, _value(name, one, text))
            except ValueError as error:
                raise BadVariable(f"{variable}: {error}") from None
    return found


def _value(name: str, one: Tunable, text: str) -> Any:
    """Converts the text to the setting's type. Text that is not valid for a flag or a choice is returned unchanged, and
    `convert_value` then rejects it."""
    if one.kind is bool:
        return _flag(text)
    if issubclass(one.kind, Enum | str):
        return text
    read: Callable[[str], Any] = int if one.kind is int else float
    try:
        return read(text)
    except ValueError:
        raise ValueError(
            f"{name} must be a {'whole ' if one.kind is int else ''}number, not {text!r}"
        ) from None


def _flag(text: str) -> bool | str:
    word = text.strip().lower()
    return word in TRUE if word in TRUE + FALSE else text
