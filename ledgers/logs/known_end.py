"""The end of a log as known to a client: all handles of a log share one known end, which never moves back."""

from __future__ import annotations

from collections import deque
from weakref import WeakValueDictionary

from ..config import IDLE_LAC_SECONDS
from .record_batch import RecordBatch

CATCH_UP_SECONDS_MAX = 20 * IDLE_LAC_SECONDS
"""How long to keep asking the bookies for a position that another client may have confirmed. An idle writer reports
such a position within twice IDLE_LAC_SECONDS (rule L4); the rest of the time allows for busy machines."""

KEPT_MAX = 1000
"""The number of most recently used logs whose ends a client remembers even without an open handle."""


class KnownEnd:
    """The known end of one log: all records before `position` are confirmed. It covers the records that the client has
    appended or read, and the ends it has seen."""

    def __init__(self) -> None:
        self.position = 0

    def advance_to(self, position: int) -> int:
        """Notes that the log reaches this position; returns the furthest position that it is known to reach."""
        self.position = max(self.position, position)
        return self.position

    def advance_past(self, batch: RecordBatch) -> int:
        """Notes that the log contains these records; returns the position after them."""
        end = batch.positions[-1] + 1
        self.advance_to(end)
        return end


class KnownEnds:
    """The known ends of a client's logs, keyed by the logs' identities."""

    def __init__(self) -> None:
        self._ends: WeakValueDictionary[bytes, KnownEnd] = WeakValueDictionary()
        self._kept: deque[KnownEnd] = deque(maxlen=KEPT_MAX)

    def of(self, identity: bytes) -> KnownEnd:
        """Returns the known end of this log."""
        known = self._ends.setdefault(identity, KnownEnd())
        self._kept.append(known)
        return known
