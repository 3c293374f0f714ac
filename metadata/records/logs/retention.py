"""Retention: which records of a log are removed automatically. Pure functions.

Only whole segments are removed, the oldest first, and only segments that have ended. Time is an argument: a record
has the time that its writer gave it (`RecordClock`), and the current time is that of a majority of the bookies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from ... import keys

CURSORS_MAX = 32
"""Maximum number of cursors that are taken into account for one log."""

SECONDS_MIN = 1.0
SECONDS_MAX = 2.0**40


@dataclass(frozen=True, slots=True)
class Retention:
    """Removes records that are `age_seconds` old, or are followed by `bytes` of newer records, whichever comes first.

    `cursors`: records that any of these cursors has not read yet are kept, however old they are. If neither age nor
    bytes is set, records that all of these cursors have read are removed at once. A listed cursor that does not exist
    keeps everything. `cursor_silent_seconds`: a cursor that has unread records and has not moved for this long is
    ignored until it moves; without this setting, no cursor is ever ignored.
    """

    age_seconds: float | None = None
    """Records this old are deleted; None for no limit by age."""
    bytes: int | None = None
    """Records that are followed by this many bytes of newer records are deleted; None for no limit by size."""
    cursors: tuple[str, ...] = ()
    """Names of up to CURSORS_MAX (32) cursors that keep the records they have not read yet."""
    cursor_silent_seconds: float | None = None
    """Ignore a cursor that has unread records and has not moved for this long; None to never ignore one."""

    def __post_init__(self) -> None:
        for what, seconds in (("an age", self.age_seconds), ("a silence", self.cursor_silent_seconds)):
            if seconds is not None and not SECONDS_MIN <= seconds <= SECONDS_MAX:
                raise ValueError(
                    f"{seconds} seconds are not a valid {what.split()[1]}: use {SECONDS_MIN:.0f} or more"
                )
        if self.bytes is not None and not 0 < self.bytes < 2**63:
            raise ValueError(f"{self.bytes} bytes cannot be kept: use 1 or more")
        if len(self.cursors) > CURSORS_MAX or len(set(self.cursors)) < len(self.cursors):
            raise ValueError(f"list at most {CURSORS_MAX} cursors, each only once")
        for name in self.cursors:
            keys.check_name(name)
        if self.cursor_silent_seconds is not None and not self.cursors:
            raise ValueError("a limit on silence requires cursors that count: name at least one")

    @property
    def is_set(self) -> bool:
        """Whether any records are removed automatically."""
        return self != NOTHING_GOES


NOTHING_GOES = Retention()


def retention_to_dict(retention: Retention) -> dict[str, Any]:
    """Returns the settings as plain values, by the names of their fields."""
    return {**asdict(retention), "cursors": list(retention.cursors)}


class EndedSegment(Protocol):
    """Interface of a segment that has ended."""

    @property
    def first_position(self) -> int: ...
    @property
    def end_position(self) -> int | None: ...
    @property
    def ended_us(self) -> int: ...
    @property
    def length_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CountedCursor:
    """A cursor listed in the retention settings: its position, and how long it has stayed there with records still
    unread.

    `position` is None if the cursor does not exist. `counts`: whether it is taken into account; it is not if it has
    been silent for too long.
    """

    name: str
    position: int | None
    silent_seconds: float
    counts: bool

    def has_read(self, segment: EndedSegment) -> bool:
        assert segment.end_position is not None
        return self.position is not None and self.position >= segment.end_position


@dataclass(frozen=True, slots=True)
class Kept:
    """The oldest segment that is kept, the reason, and the time at which it will be removed, if that is known."""

    first_position: int
    end_position: int
    length_bytes: int
    why: str
    goes_us: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The records to be removed now: all those before the position `before`, or none if that is None. `next`: the
    segment to be removed after that; None if no other segment has ended, or if no other one was checked."""

    before: int | None
    next: Kept | None


def judge(
    retention: Retention,
    head: Sequence[EndedSegment],
    bytes_left: int,
    cursors: Iterable[CountedCursor],
    now_us: int,
) -> Judgement:
    """Decides which of the oldest segments with remaining records are removed. `bytes_left`: the total size of all
    segments that have ended."""
    counting = [one for one in cursors if one.counts]
    before = None
    for segment in head:
        bytes_left -= segment.length_bytes
        kept = _kept(retention, segment, bytes_left, counting, now_us)
        if kept is not None:
            why, goes_us = kept
            assert segment.end_position is not None
            where = segment.first_position, segment.end_position, segment.length_bytes
            return Judgement(before, Kept(*where, why, goes_us))
        before = segment.end_position
    return Judgement(before, None)


def _kept(
    retention: Retention,
    segment: EndedSegment,
    bytes_behind: int,
    counting: Sequence[CountedCursor],
    now_us: int,
) -> tuple[str, int | None] | None:
    """Returns why a segment is kept, and until when; None for a segment that is to be removed."""
    reader = next((one for one in counting if not one.has_read(segment)), None)
    if reader is not None:
        what = "has not read it yet" if reader.position is not None else "does not exist"
        return f"cursor {reader.name} {what}", None
    goes_us = None if retention.age_seconds is None else segment.ended_us + round(retention.age_seconds * 1e6)
    if goes_us is not None and goes_us <= now_us:
        return None
    if retention.bytes is not None and bytes_behind >= retention.bytes:
        return None
    if goes_us is not None:
        return "it is not old enough", goes_us
    if retention.bytes is not None:
        return f"{retention.bytes - bytes_behind} more bytes have to be written first", None
    return None if counting else ("no cursor counts", None)
