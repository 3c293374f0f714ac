"""Ids that nobody has used though later ones are used: which of them a stream still waits for. Pure.

Whoever takes an id makes its ledger at once, but not before others may have taken, and closed, the next ones; one that
crashed in between never does. The age of a gap is measured by this process alone, from when it first saw a later id:
clocks of writers may be wrong. They are believed only where they say more than CLOCK_SKEW_SECONDS_MAX, so that a
cluster that is older is not waited for whenever a stream starts. What remains: a ledger made later than
GAP_SECONDS after its id was passed, or with an id chosen by hand, is not seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from metadata.records.ledger_ids import FIRST_LEDGER_ID

GAP_SECONDS = 600
"""How long an id that nobody has used is waited for."""

CLOCK_SKEW_SECONDS_MAX = 24 * 3600
"""How far wrong the clock of a writer may be without a ledger being missed."""

LOOKS_MAX = 64
"""How finely GAP_SECONDS is divided; so many looks are remembered at most."""


@dataclass(frozen=True, slots=True)
class KnownId:
    """An id that a ledger has or had, and when that ledger was made, if that is known."""

    ledger_id: int
    created_ms: int | None = None


class Gaps:
    """What one process has seen of the ids, from look to look."""

    def __init__(self) -> None:
        self._tops: deque[tuple[float, int]] = deque()
        self._passed = FIRST_LEDGER_ID - 1

    @property
    def passed(self) -> int:
        """Ids up to this one that are not used now are not waited for."""
        return self._passed

    def look(self, known: Sequence[KnownId], seconds: float, now_ms: int) -> None:
        """Notes what is known at `seconds` by a clock of this process that never jumps, and `now_ms` by all clocks."""
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
        """The first id from `first_ledger` on that may still become a ledger though there are later ones."""
        expected = max(first_ledger, self._passed + 1)
        for one in known:
            if one.ledger_id > expected:
                return expected
            expected = max(expected, one.ledger_id + 1)
        return None
