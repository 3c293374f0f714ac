"""An entry as applications see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One confirmed entry. `payload` is exactly what was appended; its digest has been verified."""

    entry_id: int
    payload: bytes
