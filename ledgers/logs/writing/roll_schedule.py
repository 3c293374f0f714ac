"""When a writer ends a segment: after so many bytes or records, or when it is so old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.records.logs.log_record import LogSettings

POSTPONED_SECONDS = 10.0
"""How soon a segment that should have been ended, and could not be, is tried again."""

ROLL_SECONDS_MAX = 7 * 86_400.0
"""A segment is ended at this age in any case. Event loops differ in the longest timer they support."""


class RollSchedule:
    """Counts what goes to the last segment, and calls `roll`, which tells whether the segment could be ended."""

    def __init__(self, settings: LogSettings, roll: Callable[[], bool]) -> None:
        self._settings = settings
        self._roll = roll
        self._records = self._bytes = 0
        self._is_overdue = False
        self._timer = self._after(settings.roll_seconds)

    def appended(self, records: int, size_bytes: int) -> None:
        """So much more goes to the segment."""
        self._records += records
        self._bytes += size_bytes
        is_full = self._bytes >= self._settings.roll_bytes or self._records >= self._settings.roll_records
        if is_full and not self._is_overdue:
            self._try()

    def postponed(self) -> None:
        """The segment goes on: no next one could be made."""
        self._is_overdue = True
        self._again(POSTPONED_SECONDS)

    def stop(self) -> None:
        self._timer.cancel()

    def _try(self) -> None:
        self._is_overdue = False
        if self._roll():
            self._records = self._bytes = 0
            self._again(self._settings.roll_seconds)

    def _due(self) -> None:
        self._again(self._settings.roll_seconds)  # again, should there be nothing to end now
        self._try()

    def _again(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._after(seconds)

    def _after(self, seconds: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(min(seconds, ROLL_SECONDS_MAX), self._due)
