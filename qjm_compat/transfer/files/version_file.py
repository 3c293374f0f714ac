"""Reads the VERSION file of a storage directory: Java properties that describe the namespace of its edits."""

from __future__ import annotations

import re
from pathlib import Path

from ...requests import NamespaceInfo
from ..errors import TransferRefused

VERSION = "VERSION"

LAYOUTS = range(-(2**31), 0)
NUMBERS = range(2**63)
"""The valid values of a namespace's id and of its creation time."""

_ESCAPED = re.compile(r"\\(.)")


def read_version(folder: Path) -> NamespaceInfo | None:
    """Returns the namespace in VERSION, or None if there is no such file. Raises TransferRefused if the file lacks a
    field."""
    path = folder / VERSION
    if path.exists() and not path.is_file():
        raise TransferRefused(f"{path} is not a regular file")
    try:
        text = path.read_text(encoding="latin-1")  # the encoding that Java uses for properties
    except FileNotFoundError:
        return None
    fields = dict(_properties(text))
    try:
        return NamespaceInfo(
            _number(fields["namespaceID"], NUMBERS),
            fields["clusterID"],
            fields.get("blockpoolID", ""),
            _number(fields.get("cTime", "0"), NUMBERS),
            _number(fields["layoutVersion"], LAYOUTS),
        )
    except KeyError as missing:
        raise TransferRefused(f"{path} has no {missing.args[0]}") from missing
    except ValueError as error:
        raise TransferRefused(f"{path} cannot be read: {error}") from error


def _number(text: str, allowed: range) -> int:
    number = int(text)
    if number not in allowed:
        raise ValueError(f"{number} is not from {allowed[0]} to {allowed[-1]}")
    return number


def _properties(text: str) -> list[tuple[str, str]]:
    """Parses the names and values in Hadoop's properties format: one pair per line, a comment begins with `#`, and `:`
    and `=` are escaped with `\\`."""
    found = []
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith(("#", "!")):
            found.append((name.strip(), _ESCAPED.sub(r"\1", value.strip())))
    return found
