"""Tracks gaps in ledger ids: ids that are unused although higher ids are used, and for which a stream still waits.
Pure.

A client that takes an id creates its ledger at once, but in the meantime other clients may have taken the next ids and
closed their ledgers. A client that crashes in between never creates its ledger. The stream's process measures the age
of a gap from the moment when it first saw a later id, because writers' clocks may be wrong. It trusts their clocks only
if they indicate an age above CLOCK_SKEW_SECONDS_MAX, so that old gaps do not delay every start of a stream. One limit
remains: the stream does not see a ledger that is created more than GAP_SECONDS after a later id was seen, or one whose
id was chosen by hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from metadata.records.ledger_ids import FIRST_LEDGER_ID

GAP_SECONDS = 600
"""Time for which the stream waits for an unused id."""

CLOCK_SKEW_SECONDS_MAX = 24 * 3600
"""Up to this skew, the writers' clocks do not make the stream miss any ledger."""

LOOKS_MAX = 64
"""Maximum number of observations that are remembered; they divide GAP_SECONDS into this many steps."""


@dataclass(frozen=True, slots=True)
class KnownId:
    """An id that belongs or belonged to a ledger, and the ledger's creation time, if known."""

    ledger_id: int
    created_ms: int | None = None


class Gaps:
    """One process's observations of ledger ids over time."""

    def __init__(self) -> None:
        self._tops: deque[tuple[float, int]] = deque()
        self._passed = FIRST_LEDGER_ID - 1

    @property
    def passed(self) -> int:
        """The stream does not wait for unused ids up to this one."""
        return self._passed

    def look(self, known: Sequence[KnownId], seconds: float, now_ms: int) -> None:
        """Records which ids are known now. The time is `seconds` on this process's monotonic clock, and `now_ms` on the
        wall clock."""
        long_ago_ms = now_ms - 1000 * CLOCK_SKEW_SECONDS_MAX
        for one in known:
            if one.created_ms is not None and one.created_ms < long_ago_ms:
                self._passed = max(self._passed, one.ledger_id)
        self._note_top(known[-1].ledger_id if known else -1, seconds)
        while self._tops and self._tops[0][0] <= seconds - GAP_SECONDS:
            self._passed = max(self._passed, self._tops.popleft()[1])

    def _note_top(self, top: int, seconds: float) -> None:
        if self._tops:
            last_seconds, last_top = self._tops[-1]
            if top <= last_top or seconds - last_seconds < GAP_SECONDS / LOOKS_MAX:
                return
        if top > self._passed:
            self._tops.append((seconds, top))

    def first(self, known: Sequence[KnownId], first_ledger: int) -> int | None:
        """Returns the first id from `first_ledger` on that may still become a ledger although later ids are used."""
        expected = max(first_ledger, self._passed + 1)
        for one in known:
            if one.ledger_id > expected:
                return expected
            expected = max(expected, one.ledger_id + 1)
        return None
