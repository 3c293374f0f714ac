"""Handles records that this program cannot decode: a newer program's, or a stray key's.

Listings skip them, so that one does not stop everything else, and log each once. Skipped is not absent: where
absence would delete, give or take something, the single record is read, and that raises BadRecord.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import BadRecord

log = logging.getLogger(__name__)

OnUnreadable = Callable[[BadRecord], None]

NAMED_MAX = 1000
"""Keys that one process logs at most; further ones are skipped silently."""

_named: set[str] = set()


def skip(error: BadRecord) -> None:
    """Logs a warning, once for each key."""
    if error.key not in _named and len(_named) < NAMED_MAX:
        _named.add(error.key)
        log.warning("skipped: %s; upgrade this program, or remove the key if nobody knows it", error)


def refuse(error: BadRecord) -> None:
    """Raises the error, for listings that must be complete."""
    raise error
