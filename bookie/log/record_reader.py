"""Reads and verifies one record of a segment, and searches for records after unreadable bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..disk.disk import LogFile
from .format import (
    ALIGNMENT,
    BODY_BYTES_MAX,
    RECORD_HEADER,
    RECORD_MAGIC_BYTES,
    BadRecordBytes,
    BookieLogRecord,
    RecordHeader,
    decode_header,
    decode_record,
    place_of,
    position_of,
)

RECORD_BYTES_MAX = RECORD_HEADER.size + BODY_BYTES_MAX
"""Size of the largest record: an upper bound for each read, whatever size the caller passes."""

SEARCH_BYTES = 4 * 1024 * 1024
"""Number of bytes read at a time when searching for a valid record after an unreadable place."""


@dataclass(frozen=True, slots=True)
class Found:
    """A record read from the log, and its position."""

    position: int
    header: RecordHeader
    record: BookieLogRecord


def position_end(found: Found) -> int:
    """Returns the position right after a record."""
    return found.position + found.header.record_bytes


def read_record(file: LogFile, position: int, size: int = 0) -> Found | BadRecordBytes:
    """Reads the record at this position of an open segment, or returns the reason why there is none. Passing the
    record's size, if known, saves a read."""
    offset = place_of(position)[1]
    try:
        data = file.read(min(size or RECORD_HEADER.size, RECORD_BYTES_MAX), offset)
        header = decode_header(data, position=position)
        if len(data) < RECORD_HEADER.size + header.body_bytes:
            data += file.read(header.body_bytes, offset + len(data))
        return Found(position, *decode_record(data, position=position))
    except BadRecordBytes as error:
        return error


def durable_record_after(file: LogFile, segment: int, bad_offset: int) -> int | None:
    """Finds a record proving that `bad_offset` was once on disk; returns its offset, or None."""
    bad_position = position_of(segment, bad_offset)
    for offset in magic_offsets(file, bad_offset + ALIGNMENT):
        found = read_record(file, position_of(segment, offset))
        if isinstance(found, Found) and found.header.synced > bad_position:
            return offset
    return None


def magic_offsets(file: LogFile, start: int) -> Iterator[int]:
    """Yields the aligned offsets from `start` on at which a record may begin."""
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
    """Returns whether anything but zeros follows `start`, within the maximum size of one record."""
    return any(file.read(BODY_BYTES_MAX, start))
