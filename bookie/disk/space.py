"""Decides when a bookie becomes read-only because its disk fills up, and when it becomes writable again (rule B4).
Pure.

    free space   at least twice the limit ── writable
                 less than that           ── a warning
                 below the limit          ── read-only, until at least twice the limit is free again

A read-only bookie serves reads, fences and recovery writes; the reserve (`reserve.py`) keeps space for the latter two.
"""

from __future__ import annotations

from dataclasses import dataclass

RELIEF = 2
"""Multiple of the limit that must be free before a read-only bookie becomes writable again, so that it does not flap.
"""


@dataclass(frozen=True, slots=True)
class SpaceLimit:
    """The minimum free space: this share of the disk or this number of bytes, whichever is smaller."""

    free_share_min: float
    free_bytes_min: int

    def bytes(self, disk_bytes: int) -> int:
        return min(int(disk_bytes * self.free_share_min), self.free_bytes_min)


class SpaceWatch:
    """Decides from a disk's free space whether the bookie is read-only, with hysteresis."""

    def __init__(self, limit: SpaceLimit) -> None:
        self._limit = limit
        self.is_read_only = False
        self.is_low = False

    def observed(self, disk_bytes: int, free_bytes: int) -> bool:
        """Records a measurement; returns whether `is_read_only` or `is_low` changed."""
        before = (self.is_read_only, self.is_low)
        limit = self._limit.bytes(disk_bytes)
        if free_bytes < limit:
            self.is_read_only = True
        elif free_bytes >= RELIEF * limit:
            self.is_read_only = False
        self.is_low = free_bytes < RELIEF * limit
        return before != (self.is_read_only, self.is_low)

    def limit_bytes(self, disk_bytes: int) -> int:
        """Returns the free space below which the bookie is read-only."""
        return self._limit.bytes(disk_bytes)

    def filled_up(self) -> bool:
        """Makes the bookie read-only after a write failed because the disk was full; returns whether the bookie was
        writable before."""
        before, self.is_read_only, self.is_low = self.is_read_only, True, True
        return not before
