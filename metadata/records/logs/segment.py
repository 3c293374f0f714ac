"""A segment of a log: one ledger, and the positions of its entries."""

from __future__ import annotations

from dataclasses import dataclass, replace

POSITION_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Segment:
    """One ledger of a log. Times are microseconds since 1970, and never decrease along a log.

    `begun_us`: no record in the segment is older. `ended_us`: no record in the segment is newer, by any writer's clock.
    `end_position`: the position after its last record; None while its ledger may be open.
    """

    ledger_id: int
    first_position: int
    epoch: int
    begun_us: int
    end_position: int | None = None
    ended_us: int = 0
    length_bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.first_position <= (self.end_position or self.first_position) <= POSITION_MAX:
            raise ValueError(
                f"a segment cannot extend from position {self.first_position} to {self.end_position}"
            )
        if min(self.ledger_id, self.epoch, self.begun_us, self.ended_us, self.length_bytes) < 0:
            raise ValueError(f"the segment at {self.first_position} contains a negative number")

    @property
    def is_ended(self) -> bool:
        return self.end_position is not None

    @property
    def is_empty(self) -> bool:
        return self.end_position == self.first_position

    def holds(self, position: int) -> bool:
        """Returns whether the position is in the segment; an open one may hold any position from its start on."""
        return self.first_position <= position and (self.end_position is None or position < self.end_position)

    def ended(self, end_position: int, ended_us: int, length_bytes: int) -> Segment:
        """Returns the segment as it is after its ledger has been closed."""
        return replace(
            self, end_position=end_position, ended_us=max(ended_us, self.begun_us), length_bytes=length_bytes
        )

    def before(self, time_us: int) -> Segment:
        """Returns the segment with its times capped at this time."""
        return replace(self, begun_us=min(self.begun_us, time_us), ended_us=min(self.ended_us, time_us))


def check_chain(segments: tuple[Segment, ...], start: int) -> None:
    """Raises ValueError unless each segment begins where the previous one ended."""
    for segment in segments:
        if segment.first_position != start:
            raise ValueError(f"a segment begins at {segment.first_position} instead of {start}")
        if segment.end_position is None:
            if segment is not segments[-1]:
                raise ValueError(f"the segment at {start} is open but is not the last one")
            return
        start = segment.end_position
