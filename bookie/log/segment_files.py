"""Segment files: names and numbers, creation, header checks, deletion."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing

from ..disk.disk import Disk, LogFile
from ..errors import DamagedLog
from .format import (
    SEGMENT_HEADER,
    BadRecordBytes,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)

_SUFFIX = ".log"
_NAME = re.compile(r"[0-9a-f]{8}\.log")


def name_of(segment: int) -> str:
    return f"{segment:08x}{_SUFFIX}"


def number_of(name: str) -> int | None:
    """Parses a segment's number from its file name; returns None for any other file."""
    return int(name.removesuffix(_SUFFIX), 16) if _NAME.fullmatch(name) else None


def numbers(disk: Disk) -> list[int]:
    """Returns the numbers of all existing segments, in ascending order."""
    found = (number_of(name) for name in disk.names())
    return sorted(number for number in found if number is not None)


def resume_or_begin(disk: Disk, segment: int, incarnation: str) -> LogFile:
    """Opens a segment without records; its header and name are on disk when this returns.

    Reuses a segment that was begun but never written to. Writes and syncs its header and name in any case: the process
    that began it may have died, or seen a sync fail, before they were on disk. The previous segment, if there is one,
    must be sealed: it ends at the end of its file.
    """
    name = name_of(segment)
    file = disk.open(name) if name in disk.names() else disk.create(name)
    try:
        if is_unbegun(file):
            header = SegmentHeader(segment, incarnation, _end_of(disk, segment - 1))
        else:
            header = check_header(file, segment, incarnation)
        if file.size() > SEGMENT_HEADER.size:
            raise DamagedLog(name, SEGMENT_HEADER.size, "a new segment has content")
        file.write([encode_segment_header(header)], 0)
        file.datasync()
        disk.sync_directory()
    except BaseException:
        file.close()
        raise
    return file


def header_of(disk: Disk, segment: int) -> SegmentHeader | None:
    """Returns the segment's header; None if there is no such segment, or its header cannot be read."""
    if name_of(segment) not in disk.names():
        return None
    file = disk.open(name_of(segment))
    try:
        return decode_segment_header(file.read(SEGMENT_HEADER.size, 0))
    except BadRecordBytes:
        return None
    finally:
        file.close()


def check_header(file: LogFile, segment: int, incarnation: str | None) -> SegmentHeader:
    """Returns the header. Raises DamagedLog unless it belongs to that segment and was written by that bookie (None: by
    any bookie)."""
    try:
        header = decode_segment_header(file.read(SEGMENT_HEADER.size, 0))
    except BadRecordBytes as error:
        raise DamagedLog(name_of(segment), 0, str(error)) from error
    if header.segment != segment:
        raise DamagedLog(name_of(segment), 0, f"it is segment {header.segment} under another name")
    if incarnation is not None and header.incarnation != incarnation:
        raise DamagedLog(
            name_of(segment), 0, f"it was written by another bookie, incarnation {header.incarnation}"
        )
    return header


def check_end(segment: int, end: int, following: SegmentHeader) -> None:
    """Raises DamagedLog if the next segment's header states that this one continued after `end`.

    A segment that lost complete records at its end looks like one that never had them.
    """
    if following.previous_end > end:
        why = f"it was cut: the next segment says that it ended at {following.previous_end}"
        raise DamagedLog(name_of(segment), end, why)


def remove(disk: Disk, numbers: Iterable[int]) -> None:
    """Deletes those of the given segments that exist; the deletion is durable when this returns."""
    there = set(disk.names())
    for number in numbers:
        if name_of(number) in there:
            disk.remove(name_of(number))
    disk.sync_directory()


def _end_of(disk: Disk, segment: int) -> int:
    return size_of(disk, segment) if segment >= 0 and name_of(segment) in disk.names() else 0


def size_of(disk: Disk, segment: int) -> int:
    """Returns the size of a segment's file in bytes."""
    with closing(disk.open(name_of(segment))) as file:
        return file.size()


def is_unbegun(file: LogFile) -> bool:
    """Returns whether a crash interrupted the creation of this file before its header was on disk. Such a file cannot
    contain records.

    The header is synced before the file grows, so a bad header in a longer file is damage.
    """
    if file.size() > SEGMENT_HEADER.size:
        return False
    try:
        decode_segment_header(file.read(SEGMENT_HEADER.size, 0))
    except BadRecordBytes:
        return True
    return False


def is_empty(disk: Disk, segment: int) -> bool:
    """Returns whether the segment has a header but no records."""
    with closing(disk.open(name_of(segment))) as file:
        return file.size() <= SEGMENT_HEADER.size
