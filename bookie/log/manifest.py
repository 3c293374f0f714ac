"""Lists the log's segments in the log itself, to distinguish a dropped segment from a lost one.

Before segments are deleted, a SEGMENTS record is written that lists all those to be kept. Only the newest such record
counts. Of the segments before the one that contains this record, those that it lists exist; others exist only if a
crash interrupted their deletion.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from ..disk.disk import Disk
from ..errors import DamagedLog
from . import segment_files
from .format import BODY_BYTES_MAX, NO_LEDGER, BookieLogRecord, RecordKind, place_of
from .record_reader import Found
from .segment_walk import walk

SEGMENTS_MAX = BODY_BYTES_MAX // 4
"""Maximum number of segments that one record can list, which allows for half a petabyte of log."""

_NUMBERS = "I"
assert array(_NUMBERS).itemsize == 4


@dataclass(frozen=True, slots=True)
class LogManifest:
    """The content of a SEGMENTS record, and the segment that contains the record."""

    written_in: int
    kept: frozenset[int]

    def dropped(self, segment: int) -> bool:
        """Returns whether this segment was dropped."""
        return segment < self.written_in and segment not in self.kept


def to_record(kept: Iterable[int]) -> BookieLogRecord:
    """Encodes a record that lists exactly these segments as kept."""
    numbers = array(_NUMBERS, sorted(kept))
    assert len(numbers) <= SEGMENTS_MAX
    return BookieLogRecord(RecordKind.SEGMENTS, NO_LEDGER, content=numbers.tobytes())


def from_record(record: BookieLogRecord, position: int) -> LogManifest:
    """Decodes a SEGMENTS record. Raises ValueError."""
    numbers = array(_NUMBERS)
    numbers.frombytes(record.content)
    return LogManifest(place_of(position)[0], frozenset(numbers))


def newest(disk: Disk) -> LogManifest | None:
    """Finds the newest SEGMENTS record. Reads segments backwards from the last one until it finds such a record; in the
    worst case, reads all of them."""
    for segment in reversed(segment_files.numbers(disk)):
        found = None
        for one in walk(disk, segment):
            if isinstance(one, Found) and one.record.kind is RecordKind.SEGMENTS:
                found = from_record(one.record, one.position)
        if found is not None:
            return found
    return None


def check_complete(disk: Disk, first: int) -> None:
    """Raises DamagedLog if a segment from `first` on is missing and was not dropped."""
    known = segment_files.numbers(disk)
    missing = sorted(set(range(first, known[-1] + 1)).difference(known)) if known else []
    if not missing:
        return
    manifest = newest(disk)
    for segment in missing:
        if manifest is None or not manifest.dropped(segment):
            raise DamagedLog(
                segment_files.name_of(segment), 0, "this segment is missing, yet later ones exist"
            )
