"""Reading a segment for a human: everything that is in it, also behind damage. Changes nothing.

Where `replay` stops at the first place it cannot read, this goes on with the next whole record, and says what
lies between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..disk import Disk, LogFile
from . import segments
from .format import ALIGNMENT, SEGMENT_HEADER, BadRecordBytes, decode_segment_header, position_of
from .replay import Found, has_content, magic_offsets, read_record


class Gap(Enum):
    """What a stretch without records is."""

    HEADER = "the segment's header cannot be read"
    DAMAGE = "damage: it was on disk before later records were written"
    TORN = "a torn tail: never on disk as a whole, so never acknowledged; the bookie cuts it when it starts"
    SPACE = "empty space, prepared for what would have come next"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes [offset, end) of a segment that are no records, and why the first of them is none."""

    segment: int
    offset: int
    end: int
    what: Gap
    why: str


def walk(disk: Disk, segment: int, incarnation: str | None = None) -> Iterator[Found | Unreadable]:
    """Every record of a segment in order, and every stretch between them that holds none."""
    file = disk.open(segments.name_of(segment))
    try:
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
    finally:
        file.close()


def _header(file: LogFile, segment: int, incarnation: str | None) -> Iterator[Unreadable]:
    try:
        header = decode_segment_header(file.read(SEGMENT_HEADER.size, 0))
        wrong = ""
        if header.segment != segment:
            wrong = f"it is the header of segment {header.segment}"
        elif incarnation is not None and header.incarnation != incarnation:
            wrong = f"it was written by another bookie, incarnation {header.incarnation}"
    except BadRecordBytes as error:
        wrong = str(error)
    if wrong:
        yield Unreadable(segment, 0, SEGMENT_HEADER.size, Gap.HEADER, wrong)


def _gap(file: LogFile, segment: int, offset: int, why: str) -> Unreadable:
    """The stretch from an unreadable place to the next whole record, or to the file's end."""
    following = _next_record(file, segment, offset)
    if following is None:
        what = Gap.TORN if has_content(file, offset) else Gap.SPACE
        return Unreadable(segment, offset, file.size(), what, why)
    at, found = following
    # What was on disk when the next record was written is damage now; else the group was torn there.
    was_durable = any(
        record.header.synced > position_of(segment, offset)
        for record in _records_from(file, segment, at, found)
    )
    return Unreadable(segment, offset, at, Gap.DAMAGE if was_durable else Gap.TORN, why)


def _next_record(file: LogFile, segment: int, offset: int) -> tuple[int, Found] | None:
    for at in magic_offsets(file, offset + ALIGNMENT):
        found = read_record(file, position_of(segment, at))
        if isinstance(found, Found):
            return at, found
    return None


def _records_from(file: LogFile, segment: int, offset: int, found: Found) -> Iterator[Found]:
    while True:
        yield found
        offset += found.header.record_bytes
        following = read_record(file, position_of(segment, offset))
        if isinstance(following, BadRecordBytes):
            after = _next_record(file, segment, offset)
            if after is None:
                return
            offset, following = after
        found = following
