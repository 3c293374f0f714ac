"""Converts between a file path and its SQLite URI, whatever characters the path contains."""

from __future__ import annotations

import os
from urllib.parse import SplitResult, quote, unquote_to_bytes

SCHEME = "sqlite"


def uri_of(path: str | os.PathLike[str]) -> str:
    """Returns the metadata URI of the file at `path`; '#', '?', '%', spaces and the like are written as %XX."""
    return f"{SCHEME}://{quote(os.fsencode(os.path.abspath(path)))}"


def path_in(parts: SplitResult) -> str:
    """Returns the path that a split URI names. Raises ValueError with the reason if the URI is invalid."""
    if parts.query:
        raise ValueError("an SQLite file has no options; write '?' in a path as %3F")
    if parts.netloc or not parts.path.startswith("/"):
        raise ValueError("the path must be absolute, with three slashes: sqlite:///PATH")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if path.endswith("/") or "\0" in path:
        raise ValueError("the path must name a file")
    return path
