"""An entry as applications see it."""

from __future__ import annotations

from typing import NamedTuple

ENTRY_OVERHEAD_BYTES = 256
"""Memory of an unconfirmed entry besides its payload: future, id, digest. Bounds how many there are."""


class Entry(NamedTuple):
    """One confirmed entry. `payload` is exactly what was appended; its digest has been verified."""

    entry_id: int
    payload: bytes


def check_is_bytes(payload: object) -> None:
    """Raises TypeError for anything but bytes: text has none of its own, and a buffer could change after the append."""
    if type(payload) is not bytes:
        raise TypeError(f"an entry is bytes, not {type(payload).__name__}")
