"""What a disk holds for good, found by reading its bytes without the product's replay.

A sequential reader that goes on behind damage: every whole record that stands in its own place counts. It shares the
record's format with the product (`bookie.log.format`), and nothing of how the log is replayed, indexed or read.
"""

from __future__ import annotations

from collections.abc import Iterator

from bookie.log import segment_files
from bookie.log.format import (
    ALIGNMENT,
    RECORD_MAGIC_BYTES,
    SEGMENT_HEADER,
    BadRecordBytes,
    BookieLogRecord,
    RecordHeader,
    decode_record,
    position_of,
)
from tests.bookie.simulated_disk import SimulatedDisk


class DurableRecords:
    """The records on the platter of one disk. Looks again only where the platter has changed."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._seen: dict[str, tuple[bytes, list[tuple[int, BookieLogRecord]]]] = {}

    def __iter__(self) -> Iterator[tuple[int, BookieLogRecord]]:
        """(position, record), in the order of the log."""
        files = self._disk.durable_contents()
        for name in sorted(files):
            seen = self._seen.get(name)
            if seen is None or seen[0] != files[name]:
                seen = self._seen[name] = files[name], list(records_in(name, files[name]))
            yield from seen[1]


def known_to_be_synced(disk: SimulatedDisk) -> list[tuple[int, BookieLogRecord]]:
    """The records that some later one says were on disk: damage to the others nobody can tell from a torn tail (B2)."""
    found = [
        one for name, content in sorted(disk.durable_contents().items()) for one in _found_in(name, content)
    ]
    synced = max((header.synced for _, header, _ in found), default=0)
    return [(position, record) for position, _, record in found if position < synced]


def records_in(name: str, content: bytes) -> Iterator[tuple[int, BookieLogRecord]]:
    """Every whole record of a segment file with its position, also those behind unreadable places."""
    for position, _, record in _found_in(name, content):
        yield position, record


def _found_in(name: str, content: bytes) -> Iterator[tuple[int, RecordHeader, BookieLogRecord]]:
    segment, offset = int(name.split(".")[0], 16), SEGMENT_HEADER.size
    view = memoryview(content)
    while (offset := _next_magic(content, offset)) >= 0:
        try:
            header, record = decode_record(view[offset:], position=position_of(segment, offset))
        except BadRecordBytes:
            offset += ALIGNMENT
        else:
            yield position_of(segment, offset), header, record
            offset += header.record_bytes


def is_durable(disk: SimulatedDisk, record: BookieLogRecord, position: int, size: int) -> bool:
    """Whether this record stands at this place whatever crash may come."""
    segment, offset = position >> 32, position & 0xFFFFFFFF
    content = disk.durable_bytes(segment_files.name_of(segment), offset, offset + size)
    try:
        return decode_record(content, position=position)[1] == record
    except BadRecordBytes:
        return False


def _next_magic(content: bytes, offset: int) -> int:
    while (offset := content.find(RECORD_MAGIC_BYTES, offset)) >= 0 and offset % ALIGNMENT:
        offset += 1
    return offset
