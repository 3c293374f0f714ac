"""The VERSION file of a storage directory: Java properties that say whose edits stand beside it."""

from __future__ import annotations

import re
from pathlib import Path

from ..requests import NamespaceInfo
from .errors import TransferRefused

VERSION = "VERSION"

_ESCAPED = re.compile(r"\\(.)")


def read_version(folder: Path) -> NamespaceInfo | None:
    """What VERSION says, None where there is none. Raises TransferRefused for one that says too little."""
    path = folder / VERSION
    try:
        text = path.read_text(encoding="latin-1")  # as Java reads and writes properties
    except FileNotFoundError:
        return None
    fields = dict(_properties(text))
    try:
        return NamespaceInfo(
            int(fields["namespaceID"]),
            fields["clusterID"],
            fields.get("blockpoolID", ""),
            int(fields.get("cTime", "0")),
            int(fields["layoutVersion"]),
        )
    except KeyError as missing:
        raise TransferRefused(f"{path} has no {missing.args[0]}") from missing
    except ValueError as error:
        raise TransferRefused(f"{path} cannot be read: {error}") from error


def _properties(text: str) -> list[tuple[str, str]]:
    """Names and values as Hadoop's properties have them: one a line, `#` before a comment, `\\` before `:` and `=`."""
    found = []
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith(("#", "!")):
            found.append((name.strip(), _ESCAPED.sub(r"\1", value.strip())))
    return found
