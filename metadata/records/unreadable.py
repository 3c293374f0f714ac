"""Records that this program cannot decode: a newer program's, or a stray key's.

A listing skips them, so that one of them does not stop everything else, and names each once in the log. Skipped is not
absent: where absence would delete, give or take something, the single record is read, and that raises BadRecord.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..errors import BadRecord

log = logging.getLogger(__name__)

OnUnreadable = Callable[[BadRecord], None]

NAMED_MAX = 1000
"""So many keys are named by one process; what is unreadable beyond that is skipped silently."""

_named: set[str] = set()


def skip(error: BadRecord) -> None:
    """Warns once of each key."""
    if error.key not in _named and len(_named) < NAMED_MAX:
        _named.add(error.key)
        log.warning("skipped: %s; upgrade this program, or remove the key if nobody knows it", error)


def refuse(error: BadRecord) -> None:
    """For listings that must be whole."""
    raise error
