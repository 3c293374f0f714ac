"""What retention may give up: true times, and where cursors stood, told apart from what an operator gave up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment
from tests.simulation.engine.world import Violation

from .clock_truth import TOLD_SECONDS

if TYPE_CHECKING:
    from .site import LogSite


CLOCK_TICK_SECONDS = 0.001

LOOK_SECONDS_MAX = 15.0
"""Between an auditor's look at the cursors and the change that follows from it."""


@dataclass(slots=True)
class Stood:
    """Where a cursor stands, and since when; and of each move when it was, and how long it had stood before."""

    position: int | None = None
    since: float = 0.0
    moves: list[tuple[float, float]] = field(default_factory=list)


class KeptTruth:
    """Checks as it happens: rule L9."""

    def __init__(self, site: LogSite) -> None:
        self._site = site
        self._ordered = 0
        self._first = 0
        self._appended: dict[int, float] = {}
        self._segments: dict[int, Segment] = {}
        self._cursors: dict[str, Stood] = {}

    def ordered(self, position: int) -> None:
        """An operator gives up what is before this position."""
        self._ordered = max(self._ordered, position)

    def appended(self, first: int, count: int) -> None:
        """A program appends records, at these positions if the log is still its own."""
        for position in range(first, first + count):
            self._appended.setdefault(position, self._site.world.now)

    def moved(self, cursor: str, position: int) -> None:
        """A cursor's record was written."""
        now, stood = self._site.world.now, self._cursors.get(cursor, Stood())
        self._cursors[cursor] = Stood(position, now, [*stood.moves, (now, now - stood.since)])

    def changed(self, log: LogRecord) -> None:
        """The log's record was written."""
        for segment in log.segments:
            if segment.is_ended and self._segments.get(segment.first_position) != segment:
                self._segments[segment.first_position] = segment
                for position in range(segment.first_position, segment.end_position or 0):
                    self._appended.setdefault(
                        position, 0.0
                    )  # a fenced writer may still think that it is to come
        before, self._first = self._first, log.first_position
        if log.first_position > max(before, self._ordered):
            self._check(log, max(before, self._ordered))

    def _check(self, log: LogRecord, before: int) -> None:
        gone = [s for s in self._segments.values() if before < (s.end_position or 0) <= log.first_position]
        if not gone or max(s.end_position or 0 for s in gone) != log.first_position:
            raise self._broken(
                f"not whole segments that have ended go by themselves, to {log.first_position}"
            )
        kept = log.retention
        cursors = [name for name in kept.cursors if not self._is_silent(name, kept.cursor_silent_seconds)]
        has_read = {name: self._has_read(name, log.first_position) for name in kept.cursors}
        for name in cursors:
            if not has_read[name]:
                raise self._broken(f"all to {log.first_position} goes, which cursor {name} has not read")
        for segment in gone:
            if not (self._is_old(segment, kept.age_seconds) or self._is_behind(segment, log)):
                by_cursors = kept.age_seconds is None and kept.bytes is None
                if not (by_cursors and any(has_read.values())):
                    raise self._broken(f"segment {segment.first_position} goes, and nothing says so")

    def _has_read(self, cursor: str, position: int, seconds: float = 0.0) -> bool:
        stood = self._cursors.get(cursor, Stood())
        is_since_then = self._site.world.now - stood.since >= seconds
        return stood.position is not None and stood.position >= position and is_since_then

    def _is_silent(self, cursor: str, limit: float | None) -> bool:
        """One that has just moved, however often, may still be taken to be: whoever looked saw it before."""
        if limit is None:
            return False
        now, stood = self._site.world.now, self._cursors.get(cursor, Stood())
        was_silent = any(now - at < LOOK_SECONDS_MAX and before >= limit for at, before in stood.moves)
        return was_silent or now - stood.since >= limit

    def _is_old(self, segment: Segment, age_seconds: float | None) -> bool:
        """By when its records were appended, as far as the clocks of writers were right. The bookies' time, which the
        others get, is late by up to a renewal."""
        if age_seconds is None:
            return False
        positions = range(segment.first_position, segment.end_position or 0)
        youngest = max(self._appended.get(position, 0.0) for position in positions)
        late_seconds = TOLD_SECONDS if any(self._site.machine_seconds.values()) else 0.0
        behind_seconds = max(-self._site.clock_seconds_min, late_seconds) + CLOCK_TICK_SECONDS
        return self._site.world.now - youngest >= age_seconds - behind_seconds

    def _is_behind(self, segment: Segment, log: LogRecord) -> bool:
        """Whether so many bytes have been written after it."""
        if log.retention.bytes is None:
            return False
        newer = (s.length_bytes for s in self._segments.values() if s.first_position > segment.first_position)
        return sum(newer) >= log.retention.bytes

    def is_all_done(self, log: LogRecord, slack_seconds: float) -> bool:
        """Whether nothing is left that has been too old for a while, and that no cursor needs."""
        age, now_us = log.retention.age_seconds, self._site.true_us()
        if age is None:
            return True
        for segment in sorted(self._segments.values(), key=lambda s: s.first_position):
            end = segment.end_position or 0
            if end > log.first_position:
                is_read = all(self._has_read(name, end, slack_seconds) for name in log.retention.cursors)
                return not is_read or segment.ended_us + (age + slack_seconds) * 1_000_000 > now_us
        return True

    def _broken(self, what: str) -> Violation:
        self._site.world.note("broken: %s", what)
        return self._site.truth._broken("L9", what)
