"""When which upkeep is due. Pure: times come from the caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..upkeep_config import UpkeepConfig


class Depth(Enum):
    """How far a round goes; each does what the one before it does."""

    COLLECT = "collect"
    MINOR = "minor"
    MAJOR = "major"


@dataclass(slots=True)
class Schedule:
    """Rounds of one bookie. A bookie that has just started owes none."""

    config: UpkeepConfig
    collected: float
    minor: float
    major: float

    @classmethod
    def starting(cls, config: UpkeepConfig, now: float) -> Schedule:
        return cls(config, now, now, now)

    def due(self, now: float, *, space_is_low: bool) -> Depth | None:
        """The round to do now, if any."""
        config = self.config
        if now - self.major >= config.major_compaction_seconds:
            return Depth.MAJOR
        if space_is_low and now - self.major >= config.low_space_seconds:
            return Depth.MAJOR
        if now - self.minor >= config.minor_compaction_seconds:
            return Depth.MINOR
        return Depth.COLLECT if now - self.collected >= config.collection_seconds else None

    def done(self, depth: Depth, now: float) -> None:
        """A round has come to an end, well or not."""
        self.collected = now
        if depth is not Depth.COLLECT:
            self.minor = now
        if depth is Depth.MAJOR:
            self.major = now
