"""The end of a log as a client knows it: one for all its handles, and it never goes back."""

from __future__ import annotations

from collections import deque
from weakref import WeakValueDictionary

from ..config import IDLE_LAC_SECONDS
from .record_batch import RecordBatch

TOLD_SECONDS_MAX = 20 * IDLE_LAC_SECONDS
"""How long bookies are asked for a position that another client may have confirmed: an idle writer tells them within
two intervals (rule L4), and the machines may be busy."""

KEPT_MAX = 1000
"""Of so many logs that a client used last it knows the end although nothing of them is open."""


class KnownEnd:
    """All records before `position` are confirmed: the client's own, those it was given, ends that it has seen."""

    def __init__(self) -> None:
        self.position = 0

    def reaches(self, position: int) -> int:
        """The log reaches this position; returns the furthest that it is known to reach."""
        self.position = max(self.position, position)
        return self.position

    def reaches_behind(self, batch: RecordBatch) -> int:
        """Returns the position behind these records, which the log has."""
        end = batch.positions[-1] + 1
        self.reaches(end)
        return end


class KnownEnds:
    """The known ends of a client's logs, by their identities."""

    def __init__(self) -> None:
        self._ends: WeakValueDictionary[bytes, KnownEnd] = WeakValueDictionary()
        self._kept: deque[KnownEnd] = deque(maxlen=KEPT_MAX)

    def of(self, identity: bytes) -> KnownEnd:
        """The one of this log."""
        known = self._ends.setdefault(identity, KnownEnd())
        self._kept.append(known)
        return known
