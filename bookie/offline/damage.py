"""Finds the losses of a log: every range that was once on disk and can no longer be read. Changes nothing.

`replay` checks the log after the checkpoint and stops at the first damage. This module reads the entire log, compares
it with the claims of the index, and determines, for each segment, what has to replace the lost bytes so that `replay`
accepts the segment again (`log_salvage.py`). Only the tail of the newest segment may be unreadable without being
damage: startup cuts this tail off, unless the index shows that it was on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ..disk.disk import Disk
from ..errors import DataDirectoryError
from ..index.claims import Claims
from ..log import manifest, segment_files
from ..log.format import (
    ALIGNMENT,
    RECORD_HEADER,
    SEGMENT_HEADER,
    RecordKind,
    aligned,
    place_of,
)
from ..log.record_reader import Found, position_end
from ..log.segment_walk import GapKind, UnreadableRecord, walk

MISSING_MAX = 10_000
"""If more segments than this are missing, the log is gone and salvaging it is pointless."""

MISSING = "this segment is missing: no record shows that it was dropped, or the index still needs it"


@dataclass(frozen=True, slots=True)
class LostRange:
    """Lost bytes [offset, end) of a segment. `end` may lie beyond the end of the file."""

    offset: int
    end: int
    why: str

    def can_be_parted_at(self, offset: int) -> bool:
        """Returns whether LOST records fit before and after this place; also true for a place outside the range."""
        if not self.offset < offset < self.end:
            return True
        before, behind = offset - self.offset, self.end - offset
        return min(before, behind) >= RECORD_HEADER.size and before % ALIGNMENT == 0


@dataclass(frozen=True, slots=True)
class Damaged:
    """The damage to a segment; at least one of the fields is set.

    `stretches`: lost byte ranges, in order, the last one possibly at the segment's end; `header_why`: why its header
    cannot be read; `resize_to`: the offset at which the file has to end, if it ends elsewhere; `is_missing`: there is
    no file; `is_foreign`: the file is not a segment of this log, or belongs to another bookie.
    """

    segment: int
    stretches: tuple[LostRange, ...] = ()
    header_why: str = ""
    resize_to: int | None = None
    is_missing: bool = False
    is_foreign: bool = False

    @property
    def only_resized_at(self) -> int | None:
        """The offset at which the file has to end; None if the file already ends there, or if a lost range ends at that
        offset."""
        return None if self.resize_to in [stretch.end for stretch in self.stretches] else self.resize_to


@dataclass(slots=True)
class _Seen:
    """Findings of a walk through a segment, other than its records. `end`: the end of the last record."""

    segment: int
    size: int = 0
    end: int = SEGMENT_HEADER.size
    header_why: str = ""
    gaps: list[UnreadableRecord] = field(default_factory=list)

    @property
    def is_header_alone(self) -> bool:
        return self.size <= SEGMENT_HEADER.size


class LogScan:
    """One pass over an entire log: iterate over it once, then read the attributes.

    For each segment, yields every record, then every gap that is not damage, then the damage, if there is any. Missing
    segments come last. `there`: the segments that exist. `manifest`: the content of the newest SEGMENTS record.
    `checkpoint_fits`: whether replay can begin at the index's checkpoint; if not, the index is wrong. `on_read` is
    called at each read, with the number of bytes read.
    """

    def __init__(
        self,
        disk: Disk,
        incarnation: str,
        claims: Claims,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.manifest: manifest.LogManifest | None = None
        self.checkpoint_fits = True
        self._disk = disk
        self._incarnation = incarnation
        self._claims = claims
        self._on_read = on_read
        self.there = segment_files.numbers(disk)
        self._newest = max([*self.there, claims.last_segment])

    def __iter__(self) -> Iterator[Found | UnreadableRecord | Damaged]:
        for number in self.there:
            yield from self._present(number)
        for number in self._missing():
            yield from self._judge(_Seen(number, header_why=MISSING), is_missing=True)

    def _missing(self) -> list[int]:
        """Returns the segments that should exist but do not. Raises DataDirectoryError if there are more than
        MISSING_MAX."""
        there = set(self.there)
        gone = (n for n in range(self._newest + 1) if n not in there)
        found = list(islice((n for n in gone if self._is_needed(n)), MISSING_MAX + 1))
        if len(found) > MISSING_MAX:
            raise DataDirectoryError(
                f"more than {MISSING_MAX} segments of the log are missing, starting with "
                f"{segment_files.name_of(found[0])}: put them back, "
                "or abandon this bookie and format a new one on an empty "
                "directory"
            )
        return found

    def _is_needed(self, segment: int) -> bool:
        return not self.was_dropped(segment) or bool(self._claims.end_in(segment))

    def was_dropped(self, segment: int) -> bool:
        """Returns whether the log's manifest shows that this segment was dropped."""
        return self.manifest is not None and self.manifest.dropped(segment)

    # --- one segment ------------------------------------------------------------------------

    def _present(self, segment: int) -> Iterator[Found | UnreadableRecord | Damaged]:
        seen = _Seen(segment, segment_files.size_of(self._disk, segment))
        for one in walk(self._disk, segment, self._incarnation):
            if isinstance(one, Found):
                self._look_at(one)
                self._on_read(one.header.record_bytes)
                seen.end = place_of(position_end(one))[1]
                yield one
            elif one.what is GapKind.HEADER:
                seen.header_why = one.why
            else:
                seen.gaps.append(one)
                self._on_read(one.end - one.offset)
        if seen.header_why and self._is_foreign(segment):
            yield Damaged(segment, header_why=seen.header_why, is_foreign=True)
        elif self._is_unbegun(seen):
            yield UnreadableRecord(
                segment, 0, seen.size, GapKind.HEADER, "a crash prevented it from being written"
            )
        else:
            yield from self._judge(seen)

    def _look_at(self, found: Found) -> None:
        if found.record.kind is RecordKind.SEGMENTS:
            self.manifest = manifest.from_record(found.record, found.position)
        if found.position < self._claims.checkpoint < position_end(found):
            self.checkpoint_fits = False

    def _is_foreign(self, segment: int) -> bool:
        """Returns whether the header is intact but names another segment or bookie."""
        return segment_files.header_of(self._disk, segment) is not None

    def _is_unbegun(self, seen: _Seen) -> bool:
        """Returns whether this is the newest segment and a crash may have left it in its present state, in which case
        startup removes it."""
        is_newest = seen.segment == self._newest
        return bool(seen.header_why) and is_newest and seen.is_header_alone and not self._claimed(seen)

    def _claimed(self, seen: _Seen) -> int:
        return self._claims.end_in(seen.segment)

    # --- judgement --------------------------------------------------------------------------

    def _judge(self, seen: _Seen, *, is_missing: bool = False) -> Iterator[UnreadableRecord | Damaged]:
        stretches, torn = self._within(seen)
        yield from torn
        tail, end = (None, seen.size) if torn else self._tail(seen)
        if tail is not None:
            stretches.append(tail)
        resize_to = None if end == seen.size or (tail is not None and end > seen.size) else end
        checkpoint = self._claims.checkpoint_in(seen.segment)
        if checkpoint is not None and not all(one.can_be_parted_at(checkpoint) for one in stretches):
            self.checkpoint_fits = False
        if stretches or seen.header_why or resize_to is not None:
            yield Damaged(seen.segment, tuple(stretches), seen.header_why, resize_to, is_missing)

    def _within(self, seen: _Seen) -> tuple[list[LostRange], Sequence[UnreadableRecord]]:
        """Returns the damage that is followed by records, and all gaps that startup cuts off: those from the newest
        segment's first torn gap on."""
        lost: list[LostRange] = []
        for n, gap in enumerate(seen.gaps):
            if not self._is_damage(gap, seen):
                return lost, seen.gaps[n:]
            if gap.end < seen.size:
                lost.append(LostRange(gap.offset, gap.end, f"damage: the data was once on disk ({gap.why})"))
        return lost, ()

    def _is_damage(self, gap: UnreadableRecord, seen: _Seen) -> bool:
        if seen.segment != self._newest or gap.what is GapKind.DAMAGE or gap.offset < self._claimed(seen):
            return True
        # Damage to the header may extend to the record right after it.
        return bool(seen.header_why) and gap.offset == SEGMENT_HEADER.size

    def _tail(self, seen: _Seen) -> tuple[LostRange | None, int]:
        """Returns the range lost at the segment's end, if any, and the offset at which the file has to end."""
        following = segment_files.header_of(self._disk, seen.segment + 1)
        if following is not None and following.previous_end:
            return self._tail_of_sealed(seen, following.previous_end)
        checkpoint = self._claims.checkpoint_in(seen.segment)
        end = self._claimed(seen)
        if self._ends_badly(seen):
            end = max(end, seen.end + RECORD_HEADER.size)
        if end <= seen.end:
            return None, self._padded(seen)
        if checkpoint is not None and checkpoint >= seen.end:
            # Replay begins at the checkpoint: a LOST record there marks the rest of the log as unknown.
            end = max(end, checkpoint + RECORD_HEADER.size)
        return _lost_tail(seen, end, "the rest of its content is unknown")

    def _tail_of_sealed(self, seen: _Seen, end: int) -> tuple[LostRange | None, int]:
        """Does the same as `_tail`, for a segment whose end is recorded in the next segment's header."""
        checkpoint = self._claims.checkpoint_in(seen.segment)
        if checkpoint is not None and checkpoint > max(end, seen.end):
            self.checkpoint_fits = False
        if end <= seen.end:
            return None, min(seen.end, self._padded(seen))
        return _lost_tail(seen, end, f"it was cut: the next segment records that it ended at {end}")

    def _padded(self, seen: _Seen) -> int:
        """Returns the file's size, including the last record's padding if the index claims bytes beyond that record."""
        return max(seen.size, min(seen.end, self._claimed(seen)))

    def _ends_badly(self, seen: _Seen) -> bool:
        """Returns whether the segment must have lost data at its end."""
        if seen.header_why and seen.end == SEGMENT_HEADER.size:
            return True
        return seen.segment != self._newest and seen.size > seen.end


def _lost_tail(seen: _Seen, end: int, why: str) -> tuple[LostRange, int]:
    end = max(aligned(end), seen.end + RECORD_HEADER.size)
    return LostRange(seen.end, end, why), end
