"""Reading the log after a stop or a crash (rule B2).

What a crash may leave, and what is done:

1. The last segment ends in zeros where it was preallocated: that is its end.
2. The last group was torn: some of its records, or parts, are missing. None of it was
   acknowledged as a whole, because its sync had not returned. The records before the first
   missing one are kept; from there on the file is cut, so that no record behind the gap, which
   the bookie has just denied having, can come back after the next restart.
   The records of that group which are whole are written once more before the sync: if its sync
   failed, the kernel may hold them as clean although they never reached the disk.
3. A record is unreadable and a later one says (`synced`) that the place was on disk once: that is
   damage, and the bookie refuses to start.
4. The newest segment has no header yet: it was being begun, and is removed.

Only the newest segment may end early: a segment is cut to its end and synced before the next begins.
Segment numbers have no gaps: a missing one is damage like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from ..disk import Disk, LogFile
from ..errors import DamagedLog
from . import segments
from .format import (
    ALIGNMENT,
    BODY_BYTES_MAX,
    RECORD_HEADER,
    RECORD_MAGIC_BYTES,
    SEGMENT_HEADER,
    BadRecordBytes,
    Record,
    RecordHeader,
    decode_header,
    decode_record,
    place_of,
    position_of,
)

log = logging.getLogger(__name__)

SEARCH_BYTES = 4 * 1024 * 1024
"""Step of the search for a valid record behind an unreadable place."""


@dataclass(frozen=True, slots=True)
class Found:
    """A record and where it stands."""

    position: int
    header: RecordHeader
    record: Record


def replay(disk: Disk, incarnation: str, from_position: int) -> Iterator[Found]:
    """Every record from `from_position` on, in order; cuts the torn tail of the last segment.

    When the iterator ends, everything it gave is on disk. Raises DamagedLog.
    """
    first, offset = place_of(from_position)
    known = segments.numbers(disk)
    if from_position and first not in known:
        raise DamagedLog(
            segments.name_of(first), offset, "the index refers to this segment and it is missing"
        )
    wanted = [number for number in known if number >= first]
    for number, expected in zip(wanted, range(first, first + len(wanted)), strict=True):
        if number != expected:
            raise DamagedLog(segments.name_of(expected), 0, "this segment is missing, yet later ones exist")
    for segment in wanted:
        newest = segment == known[-1]
        start = offset if segment == first and offset else SEGMENT_HEADER.size
        yield from _replay_segment(disk, incarnation, segment, start, newest=newest)


def _replay_segment(
    disk: Disk, incarnation: str, segment: int, start: int, *, newest: bool
) -> Iterator[Found]:
    file = disk.open(segments.name_of(segment))
    try:
        if newest and start == SEGMENT_HEADER.size and segments.is_unbegun(file):
            _remove_unbegun(disk, segment)
            return
        segments.check_header(file, segment, incarnation)
        if file.size() < start:
            raise DamagedLog(
                segments.name_of(segment), file.size(), "the segment is shorter than the index says"
            )
        end = last_group = start
        for found in _records(file, segment, start):
            last_group = max(start, place_of(found.header.synced)[1])
            end = place_of(position_end(found))[1]
            yield found
        _settle_end(file, segment, last_group, end, newest=newest)
        if not newest:
            _check_end(disk, segment, end, incarnation)
    finally:
        file.close()


def position_end(found: Found) -> int:
    """The position right behind a record."""
    return found.position + found.header.record_bytes


def _records(file: LogFile, segment: int, start: int) -> Iterator[Found]:
    offset = start
    while True:
        found = read_record(file, position_of(segment, offset))
        if isinstance(found, BadRecordBytes):
            return
        yield found
        offset += found.header.record_bytes


def read_record(file: LogFile, position: int) -> Found | BadRecordBytes:
    """The record at this position of an open segment, or why there is none."""
    offset = place_of(position)[1]
    try:
        head = file.read(RECORD_HEADER.size, offset)
        header = decode_header(head, position=position)
        data = head + file.read(header.body_bytes, offset + RECORD_HEADER.size)
        return Found(position, *decode_record(data, position=position))
    except BadRecordBytes as error:
        return error


def _settle_end(file: LogFile, segment: int, last_group: int, end: int, *, newest: bool) -> None:
    """Decides what the unreadable rest of a segment is, and cuts it where it is a torn tail.

    Everything before `last_group` was on disk before the last record was written.
    """
    if not newest:
        if file.size() > end:
            raise DamagedLog(segments.name_of(segment), end, "no valid record, yet later segments exist")
        return
    witness = durable_record_after(file, segment, end)
    if witness is not None:
        raise DamagedLog(
            segments.name_of(segment),
            end,
            f"no valid record, yet the one at offset {witness} was written later",
        )
    if has_content(file, end):
        log.warning("cut the torn tail of %s at offset %d", segments.name_of(segment), end)
    # What was replayed is about to be served: it must not vanish in the next power loss.
    file.truncate(end)
    file.write([file.read(end - last_group, last_group)], last_group)
    file.datasync()


def _check_end(disk: Disk, segment: int, end: int, incarnation: str) -> None:
    following = disk.open(segments.name_of(segment + 1))
    try:
        if not segments.is_unbegun(following):
            segments.check_end(segment, end, segments.check_header(following, segment + 1, incarnation))
    finally:
        following.close()


def _remove_unbegun(disk: Disk, segment: int) -> None:
    log.warning("removed %s: the crash came before its header was written", segments.name_of(segment))
    disk.remove(segments.name_of(segment))
    disk.sync_directory()


def durable_record_after(file: LogFile, segment: int, bad_offset: int) -> int | None:
    """The offset of a record that proves that `bad_offset` was on disk once, if there is one."""
    bad_position = position_of(segment, bad_offset)
    for offset in magic_offsets(file, bad_offset + ALIGNMENT):
        found = read_record(file, position_of(segment, offset))
        if isinstance(found, Found) and found.header.synced > bad_position:
            return offset
    return None


def magic_offsets(file: LogFile, start: int) -> Iterator[int]:
    """Aligned offsets from `start` on at which a record may begin."""
    overlap = len(RECORD_MAGIC_BYTES) - 1
    offset = start
    while chunk := file.read(SEARCH_BYTES + overlap, offset):
        at = chunk.find(RECORD_MAGIC_BYTES)
        while 0 <= at < SEARCH_BYTES:
            if (offset + at) % ALIGNMENT == 0:
                yield offset + at
            at = chunk.find(RECORD_MAGIC_BYTES, at + 1)
        offset += SEARCH_BYTES


def has_content(file: LogFile, start: int) -> bool:
    """Whether anything but zeros lies behind `start` (looked for as far as one record can reach)."""
    return any(file.read(BODY_BYTES_MAX, start))
