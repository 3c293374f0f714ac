"""Counts how long bookies have been absent, in the time of the auditor's own monotonic clock. Pure.

No two clocks are compared: an auditor adds what passes between two of its looks to what the absences' records say,
which is what auditors before it have counted. So an absence is never counted longer than it was, whatever wall clocks
do.
"""

from __future__ import annotations

from collections.abc import Mapping

TELL_SHARE = 10
"""Once a bookie is lost, its count is recorded when it has grown by one part in so many."""


class AbsenceCounts:
    """What one auditor has counted and not recorded yet."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._unrecorded_ms: dict[str, float] = {}
        """Of each bookie that was absent at the last look."""

    def interrupted(self) -> None:
        """The auditor could not look, or lost its office: what passes until its next look does not count."""
        self._unrecorded_ms = {}

    def look(self, recorded_ms: Mapping[str, int], now: float, wait_ms: int) -> dict[str, int]:
        """Counts for those that are absent, by what is recorded of them; returns what to record now of which.

        Until `wait_ms`, when a bookie is lost, every look is recorded.
        """
        passed_ms, self._looked_at = (now - self._looked_at) * 1000, now
        before = self._unrecorded_ms
        self._unrecorded_ms = {
            name: before[name] + passed_ms if name in before else 0.0 for name in recorded_ms
        }
        due = {
            name: ms for name, ms in self._unrecorded_ms.items() if _is_due(ms, recorded_ms[name], wait_ms)
        }
        self._unrecorded_ms |= dict.fromkeys(due, 0.0)
        return {name: recorded_ms[name] + round(ms) for name, ms in due.items()}


def _is_due(unrecorded_ms: float, recorded_ms: int, wait_ms: int) -> bool:
    return unrecorded_ms >= 1 and (recorded_ms < wait_ms or unrecorded_ms * TELL_SHARE >= recorded_ms)
