"""Inspects a segment: yields every record, even after damage, and every gap. Changes nothing.

Whereas `replay` stops at the first unreadable place, `walk` continues with the next intact record and reports the gap
in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum

from ..disk.disk import Disk, LogFile
from ..errors import DamagedLog
from . import segment_files
from .format import RECORD_HEADER, SEGMENT_HEADER, position_of
from .record_reader import Found, durable_record_after, has_content, magic_offsets, read_record


class GapKind(Enum):
    """Kinds of gaps (parts of a segment without records)."""

    HEADER = "the segment's header cannot be read"
    DAMAGE = "damage: it was on disk before later records were written"
    TORN = (
        "a torn tail: it was cut short while being written, so never acknowledged, or was damaged later; "
        "the bookie cuts it when it starts"
    )
    SPACE = "empty space, prepared for the next records"


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A gap: bytes [offset, end) of a segment that hold no records, and why no record begins at `offset`."""

    segment: int
    offset: int
    end: int
    what: GapKind
    why: str


def walk(disk: Disk, segment: int, incarnation: str | None = None) -> Iterator[Found | UnreadableRecord]:
    """Yields every record of a segment in order, and every gap between them."""
    with closing(disk.open(segment_files.name_of(segment))) as file:
        yield from _header(file, segment, incarnation)
        offset = SEGMENT_HEADER.size
        while offset < file.size():
            found = read_record(file, position_of(segment, offset))
            if isinstance(found, Found):
                yield found
                offset += found.header.record_bytes
            else:
                gap = _gap(file, segment, offset, str(found))
                yield gap
                offset = gap.end


def _header(file: LogFile, segment: int, incarnation: str | None) -> Iterator[UnreadableRecord]:
    try:
        segment_files.check_header(file, segment, incarnation)
    except DamagedLog as damaged:
        yield UnreadableRecord(segment, 0, SEGMENT_HEADER.size, GapKind.HEADER, damaged.why)


def _gap(file: LogFile, segment: int, offset: int, why: str) -> UnreadableRecord:
    """Returns the gap from an unreadable place to the next intact record, or to the end of the file."""
    end = _next_record(file, segment, offset)
    if end is None:
        what = GapKind.TORN if has_content(file, offset) else GapKind.SPACE
        return UnreadableRecord(segment, offset, file.size(), what, why)
    # This is damage if the record was on disk when a later one was written; otherwise the group's write was torn here.
    damaged = durable_record_after(file, segment, offset) is not None
    return UnreadableRecord(segment, offset, end, GapKind.DAMAGE if damaged else GapKind.TORN, why)


def _next_record(file: LogFile, segment: int, offset: int) -> int | None:
    # The unreadable record had at least a header, so a match within the header's length is part of that record.
    for at in magic_offsets(file, offset + RECORD_HEADER.size):
        if isinstance(read_record(file, position_of(segment, at)), Found):
            return at
    return None
