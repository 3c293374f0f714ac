"""Schedules rounds of collection and compaction. Pure: the caller passes the time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..upkeep_config import UpkeepConfig

LOW_SPACE_SECONDS = 60.0
"""Seconds between compactions of a nearly full disk, regardless of the configured periods."""


class Depth(Enum):
    """How thorough a round is; each depth includes the previous one."""

    COLLECT = "collect"
    MINOR = "minor"
    MAJOR = "major"


@dataclass(slots=True)
class Schedule:
    """Schedule of one bookie. No round is due right after the bookie's start."""

    config: UpkeepConfig
    collected: float
    minor: float
    major: float

    @classmethod
    def starting(cls, config: UpkeepConfig, now: float) -> Schedule:
        return cls(config, now, now, now)

    def due(self, now: float, *, space_is_low: bool) -> Depth | None:
        """Returns the round that is due now, if any."""
        config = self.config
        if now - self.major >= config.major_compaction_seconds:
            return Depth.MAJOR
        if space_is_low and now - self.major >= LOW_SPACE_SECONDS:
            return Depth.MAJOR
        if now - self.minor >= config.minor_compaction_seconds:
            return Depth.MINOR
        return Depth.COLLECT if now - self.collected >= config.collection_seconds else None

    def done(self, depth: Depth, now: float) -> None:
        """Records the end of a round, successful or not."""
        self.collected = now
        if depth is not Depth.COLLECT:
            self.minor = now
        if depth is Depth.MAJOR:
            self.major = now
