"""Decides when a bookie is read-only because its disk fills up, and when it is writable again (rule B4). Pure.

    free space   enough for twice the limit ── writable
                 below that                 ── a warning
                 below the limit            ── read-only, until there is twice the limit again

A read-only bookie serves reads, fences and recovery writes; for these there is a reserve (`reserve.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

RELIEF = 2
"""Times the limit that must be free before a read-only bookie is writable again, so that it does not flap."""


@dataclass(frozen=True, slots=True)
class SpaceLimit:
    """The minimum free space: this share of the disk or this number of bytes, whichever is less."""

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
        """The bookie is read-only with less free space than this."""
        return self._limit.bytes(disk_bytes)

    def filled_up(self) -> bool:
        """Makes the bookie read-only after a write found the disk full; returns whether it was writable before."""
        before, self.is_read_only, self.is_low = self.is_read_only, True, True
        return not before
