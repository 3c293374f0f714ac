"""Finds the line of each key of a TOML file, which the standard library's parser does not report. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

STATEMENT_LINES_MAX = 1000
"""Maximum number of lines of a value; the lines of keys behind a longer one are not known."""

Keys = tuple[str, ...]
"""A key with the tables around it: ("bookie", "run", "port")."""


def lines_of(text: str) -> dict[Keys, int]:
    """Returns the line on which each table and each key of valid TOML begins; the first line is 1."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement.append(line)
        if len(statement) > STATEMENT_LINES_MAX:
            break
        try:
            parsed = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:  # the statement continues on the next line
            continue
        begins = number - len(statement) + 1
        if statement[0].lstrip().startswith("["):
            table = _deepest(parsed)
            _note(found, ((table[:depth], begins) for depth in range(1, len(table) + 1)))
        else:
            _note(found, ((table + keys, begins) for keys in _paths(parsed)))
        statement = []
    return found


def _note(found: dict[Keys, int], places: Iterator[tuple[Keys, int]]) -> None:
    for keys, line in places:
        found.setdefault(keys, line)


def _deepest(parsed: Any) -> Keys:
    """The path that a table's header opens, also the header of a list of tables."""
    if isinstance(parsed, list):
        return _deepest(parsed[0])
    for key, inner in parsed.items():
        return (key, *_deepest(inner))
    return ()


def _paths(parsed: Mapping[str, Any]) -> Iterator[Keys]:
    for key, value in parsed.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *inner) for inner in _paths(value))
