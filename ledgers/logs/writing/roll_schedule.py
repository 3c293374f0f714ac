"""Determines when a writer ends a segment: after a number of bytes or records, or at a certain age."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.records.logs.log_record import LogSettings

POSTPONED_SECONDS = 10.0
"""Delay before the writer tries again to end a segment that was due but could not be ended."""

ROLL_SECONDS_MAX = 7 * 86_400.0
"""A segment is ended at this age in any case. The limit is needed because event loops differ in how long a timer may
run."""


AHEAD_SECONDS = 0.2
"""The ledger of the next segment is created this long before a segment is full, because creating it takes a few round
trips."""


class RollSchedule:
    """Counts the records of the last segment, and calls `roll` when the segment is nearly full or due. `roll` returns
    whether the segment can be ended after the given number of further records."""

    def __init__(self, settings: LogSettings, roll: Callable[[int], bool]) -> None:
        self._settings = settings
        self._roll = roll
        self._loop = asyncio.get_running_loop()
        self._records = self._bytes = 0
        self._began = self._loop.time()
        self._is_overdue = False
        self._timer = self._after(settings.roll_seconds)

    def appended(self, records: int, size_bytes: int) -> None:
        """Counts records that are appended to the segment."""
        self._records += records
        self._bytes += size_bytes
        half_full = max(self._records / self._settings.roll_records, self._bytes / self._settings.roll_bytes)
        if half_full >= 0.5 and not self._is_overdue:
            left = self._records_left()
            if left <= self._records_soon():
                self._try(left)

    def postponed(self) -> None:
        """Notes that the segment continues, because the next one could not be created."""
        self._is_overdue = True
        self._again(POSTPONED_SECONDS)

    def stop(self) -> None:
        self._timer.cancel()

    def _records_left(self) -> int:
        """Returns how many more records fit into the segment if they are as large as its current ones."""
        bytes_left = self._settings.roll_bytes - self._bytes
        by_bytes = bytes_left * self._records // max(1, self._bytes)
        return max(0, min(self._settings.roll_records - self._records, by_bytes))

    def _records_soon(self) -> int:
        """Returns how many records will be appended while a ledger is being created, at the rate of the current
        segment."""
        seconds = self._loop.time() - self._began
        return self._records if seconds <= AHEAD_SECONDS else int(self._records * AHEAD_SECONDS / seconds)

    def _try(self, ahead: int) -> None:
        self._is_overdue = False
        if self._roll(ahead):
            # The next `ahead` records still belong to the last segment.
            self._bytes = -ahead * self._bytes // max(1, self._records)
            self._records = -ahead
            self._began = self._loop.time()
            self._again(self._settings.roll_seconds)

    def _due(self) -> None:
        self._again(self._settings.roll_seconds)  # in case the segment cannot be ended now
        self._try(0)

    def _again(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._after(seconds)

    def _after(self, seconds: float) -> asyncio.TimerHandle:
        return self._loop.call_later(min(seconds, ROLL_SECONDS_MAX), self._due)
