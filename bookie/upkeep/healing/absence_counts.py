"""Counts the time for which bookies have been absent, by the auditor's own monotonic clock. Pure.

No two clocks are compared. An auditor adds the time between two of its looks to the counts in the absences' records,
which earlier auditors wrote. So an absence never counts longer than it lasted, whatever wall clocks do.
"""

from __future__ import annotations

from collections.abc import Mapping

TELL_SHARE = 10
"""Once a bookie is lost, its count is recorded each time that it has grown by one part in this number."""


class AbsenceCounts:
    """Absences that one auditor has counted and not recorded yet."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._unrecorded_ms: dict[str, float] = {}
        """Unrecorded milliseconds of each bookie that was absent at the last look."""

    def interrupted(self) -> None:
        """Records that the auditor could not look, or lost its lease: the time until its next look does not count."""
        self._unrecorded_ms = {}

    def look(self, recorded_ms: Mapping[str, int], now: float, wait_ms: int) -> dict[str, int]:
        """Counts for the absent bookies, given their recorded counts; returns the counts to record now, by name.

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
