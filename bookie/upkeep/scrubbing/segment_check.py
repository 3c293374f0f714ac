"""Verifies every record of a segment, even after damage and on a failing disk, in small steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from ...disk.disk import Disk, LogFile
from ...errors import DamagedLog
from ...index.frame_locations import FrameLocation, place_of_frame
from ...log import segment_files
from ...log.format import (
    ALIGNMENT,
    NO_LEDGER,
    RECORD_HEADER,
    RECORD_MAGIC_BYTES,
    SEGMENT_HEADER,
    BadRecordBytes,
    decode_record,
    position_of,
)
from ...log.record_reader import Found, read_record

STEP_BYTES = 1024 * 1024
"""Bytes read at once; a step ends with the first record beyond this size, or at the first damage."""

SEARCH_BYTES = 4096
"""Step in bytes of the search for the next record; a read error of a disk affects an entire block."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Damaged bytes [offset, end) of a segment: they once held records, but no longer do."""

    segment: int
    offset: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{segment_files.name_of(self.segment)} from offset {self.offset} to {self.end}: {self.why}"


@dataclass(slots=True)
class CheckStep:
    """Findings of one step: damage, and every frame's location as the index should contain it."""

    bytes: int = 0
    records: int = 0
    frames: list[tuple[int, FrameLocation]] = field(default_factory=list)
    damaged: list[DamagedRange] = field(default_factory=list)

    def take(self, found: Found) -> None:
        record, size = found.record, found.header.record_bytes
        self.records += 1
        self.bytes += size
        place = place_of_frame(record.columns, found.position, size)
        if place is not None and record.ledger_id != NO_LEDGER:
            self.frames.append((record.ledger_id, place))


def check_segment(
    disk: Disk, segment: int, incarnation: str, synced: int | None = None
) -> Iterator[CheckStep]:
    """Checks a segment to its end if it is sealed, otherwise to the offset up to which it is `synced`.

    A sealed segment contains only records, and so does the synced part of the newest one. Must be used by one thread at
    a time. Raises FileNotFoundError if the segment does not exist, and OSError if it cannot be opened.
    """
    with closing(disk.open(segment_files.name_of(segment))) as file:
        yield _header(file, segment, incarnation)
        size = file.size()
        end = _end_of(disk, segment, size) if synced is None else synced
        offset = SEGMENT_HEADER.size
        while offset < min(size, end):
            step = _step(file, segment, offset, min(size, end))
            yield step
            offset += step.bytes
        if size < end:
            yield CheckStep(damaged=[DamagedRange(segment, size, end, "the file was truncated here")])


def _end_of(disk: Disk, segment: int, size: int) -> int:
    """Returns the end of a sealed segment: its size, or the end in the next segment's header if that is higher."""
    try:
        following = segment_files.header_of(disk, segment + 1)
    except OSError:  # the next segment was just deleted, or its own check will find it unreadable
        return size
    return size if following is None else max(size, following.previous_end)


def _header(file: LogFile, segment: int, incarnation: str) -> CheckStep:
    try:
        segment_files.check_header(file, segment, incarnation)
        why = ""
    except DamagedLog as damaged:
        why = damaged.why
    except OSError as error:
        why = str(error)
    damage = [DamagedRange(segment, 0, SEGMENT_HEADER.size, why)] if why else []
    return CheckStep(bytes=SEGMENT_HEADER.size, damaged=damage)


def _step(file: LogFile, segment: int, offset: int, end: int) -> CheckStep:
    """Returns the records from `offset` on; if no record begins there, the damaged stretch up to the next record."""
    step = CheckStep()
    for found in _records_in(_chunk(file, offset, end), position_of(segment, offset)):
        step.take(found)
    if not step.bytes:  # the record is larger than the step, or there is none
        only = _record_at(file, position_of(segment, offset))
        if isinstance(only, Found):
            step.take(only)
        else:
            following = _next_record(file, segment, offset, end)
            step.damaged.append(DamagedRange(segment, offset, following, only))
            step.bytes = following - offset
    return step


def _chunk(file: LogFile, offset: int, end: int) -> bytes:
    try:
        return file.read(min(STEP_BYTES, end - offset), offset)
    except OSError:  # part of the step may be readable, so read record by record
        return b""


def _records_in(data: bytes, position: int) -> Iterator[Found]:
    view = memoryview(data)
    while view:
        try:
            found = Found(position, *decode_record(view, position=position))
        except BadRecordBytes:  # damaged, or cut by the end of the step: the next step begins here
            return
        yield found
        size = found.header.record_bytes
        view, position = view[size:], position + size


def _record_at(file: LogFile, position: int) -> Found | str:
    try:
        found = read_record(file, position)
    except OSError as error:
        return str(error)
    return found if isinstance(found, Found) else str(found)


def _next_record(file: LogFile, segment: int, offset: int, end: int) -> int:
    """Returns the offset of the next record after an unreadable place; `end` if there is none."""
    # The unreadable record had at least a header, so a match within the header's length is part of that record.
    for at in _magic_offsets(file, offset + RECORD_HEADER.size, end):
        if isinstance(_record_at(file, position_of(segment, at)), Found):
            return at
    return end


def _magic_offsets(file: LogFile, start: int, end: int) -> Iterator[int]:
    """Yields aligned offsets at which a record may begin; skips blocks that the disk cannot read."""
    for offset in range(start, end, SEARCH_BYTES):
        try:
            block = file.read(min(SEARCH_BYTES, end - offset), offset)
        except OSError:
            continue
        at = block.find(RECORD_MAGIC_BYTES)
        while at >= 0:
            if at % ALIGNMENT == 0:
                yield offset + at
            at = block.find(RECORD_MAGIC_BYTES, at + 1)
