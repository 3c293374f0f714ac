"""Checks the log against the index's checkpoint, to detect missing segments or a missing end of the log.

A log that has lost its end, or a whole segment, looks like a log that never had it. The index reveals such a loss, up
to its checkpoint, because everything that the index points to was once on disk.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ..disk.disk import Disk, LogFile
from ..errors import DamagedLog, IndexUnusable
from ..log import manifest, segment_files
from ..log.format import (
    ALIGNMENT,
    BODY_BYTES_MAX,
    RECORD_HEADER,
    RECORD_MAGIC_BYTES,
    SEGMENT_HEADER,
    BadRecordBytes,
    decode_header,
    decode_record,
    place_of,
    position_of,
)
from ..log.record_reader import Found, position_end
from ..log.segment_walk import walk
from .index import Index

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claims:
    """The minimum extent of the log, according to the index. `reach` maps each segment to the end of its last indexed
    frame."""

    checkpoint: int = 0
    reach: Mapping[int, int] = field(default_factory=dict)

    @property
    def last_segment(self) -> int:
        """The segment before which the log must not end; -1 if unknown."""
        return place_of(self.checkpoint)[0] if self.checkpoint else -1

    def checkpoint_in(self, segment: int) -> int | None:
        """Returns the checkpoint's offset in this segment, but at least the header's size; None if the checkpoint lies
        in another segment."""
        at, offset = place_of(self.checkpoint)
        return max(SEGMENT_HEADER.size, offset) if self.checkpoint and at == segment else None

    def end_in(self, segment: int) -> int:
        """Returns the minimum length of this segment; 0 if unknown."""
        return max(self.checkpoint_in(segment) or 0, self.reach.get(segment, 0))


NO_CLAIMS = Claims()
"""No claims: those of an index that cannot be used."""


def opened(path: Path) -> tuple[Index | None, Claims, str]:
    """Opens the index of a stopped bookie. Returns the index, its claims and ""; or, if the index cannot be used, None,
    NO_CLAIMS and the reason."""
    index = None
    try:
        index = Index(path)
        return index, claims_of(index), ""
    except IndexUnusable as error:
        if index is not None:
            index.close()
        return None, NO_CLAIMS, str(error)


def claims_of(index: Index) -> Claims:
    """Reads the whole index for its references to the log. Raises IndexUnusable."""
    checkpoint, reach = index.checkpoint_position, dict[int, int]()
    for _, place in index.places():
        segment, offset = place_of(place.position)
        if place.position < checkpoint:  # a row that points beyond the checkpoint is corrupt: ignore it
            reach[segment] = max(reach.get(segment, 0), offset + place.size)
    return Claims(checkpoint, reach)


def check_log(disk: Disk, index: Index) -> None:
    """Raises DamagedLog if the log lacks a segment that the index needs, or ends before the checkpoint.

    Ignores read errors before the checkpoint, because the index already covers the records there. Raises IndexUnusable
    if the checkpoint itself is wrong.
    """
    there = segment_files.numbers(disk)
    if not there:
        return
    _check_segments(disk, index, there)
    segment, offset = place_of(index.checkpoint_position)
    if not index.checkpoint_position or segment < there[-1]:
        return  # replay begins in a sealed segment, and checks that segment's end itself
    if segment > there[-1]:
        raise DamagedLog(
            segment_files.name_of(segment), 0, "the index refers to this segment, but it is missing"
        )
    if offset > SEGMENT_HEADER.size:
        _check_end(disk, segment, offset)
    else:
        _check_begun(disk, segment)


def check_before_rebuild(disk: Disk, index: Index) -> None:
    """Raises DamagedLog if this index is the only evidence that the log has lost data: the log must be salvaged before
    the index is discarded. A corrupt index proves nothing, so it is ignored."""
    try:
        claims = claims_of(index)
        check_log(disk, index)
    except IndexUnusable:
        return
    needed = {segment for segment in (*claims.reach, claims.last_segment) if segment >= 0}
    for segment in sorted(needed):
        _check_reach(disk, segment, claims.end_in(segment))


def _check_reach(disk: Disk, segment: int, end: int) -> None:
    if segment_files.name_of(segment) not in disk.names():
        raise DamagedLog(
            segment_files.name_of(segment),
            0,
            "this segment is missing, but the index points to records in it",
        )
    size, following = segment_files.size_of(disk, segment), segment_files.header_of(disk, segment + 1)
    # If the next segment's header records this segment's end, that end counts, and replay checks it.
    if size < end and not (following is not None and following.previous_end):
        raise DamagedLog(
            segment_files.name_of(segment),
            size,
            f"it is truncated: the index points to records up to offset {end}",
        )


def _check_segments(disk: Disk, index: Index, there: list[int]) -> None:
    missing = set(range(there[-1])).difference(there)
    gone = [number for number in sorted(missing) if index.usage.of(number)]
    if not gone:
        return
    said = manifest.newest(disk)
    for number in gone:
        if said is None or not said.dropped(number):
            why = "this segment is missing, but the index points to records in it"
            raise DamagedLog(segment_files.name_of(number), 0, why)


def _check_end(disk: Disk, segment: int, checkpoint: int) -> None:
    file = disk.open(segment_files.name_of(segment))
    try:
        if file.size() >= checkpoint and _ends_with_record(file, segment, checkpoint):
            return
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        log.warning("skipping log records before the checkpoint that cannot be read: %s", error)
        return
    finally:
        file.close()
    end = SEGMENT_HEADER.size
    for found in walk(disk, segment):
        if isinstance(found, Found):
            begin, end = place_of(found.position)[1], place_of(position_end(found))[1]
            if begin < checkpoint < end:
                raise IndexUnusable(
                    "the index's checkpoint lies inside the record of "
                    f"{segment_files.name_of(segment)} at offset {begin}; "
                    "rebuild the index from the log: bookledger bookie rebuild-index"
                )
    if end < checkpoint:
        raise DamagedLog(
            segment_files.name_of(segment),
            end,
            f"the log ends here, but the index shows that it extended to offset {checkpoint}",
        )


def _check_begun(disk: Disk, segment: int) -> None:
    """Raises DamagedLog if the segment's header is missing: startup would otherwise remove the segment as one that was
    never begun."""
    with closing(disk.open(segment_files.name_of(segment))) as file:
        if segment_files.is_unbegun(file):
            why = "its header is missing, but the index shows that it was on disk"
            raise DamagedLog(segment_files.name_of(segment), 0, why)


def _ends_with_record(file: LogFile, segment: int, end: int) -> bool:
    """Returns whether a complete record ends at `end`. Tries the nearest possible start first."""
    start = max(SEGMENT_HEADER.size, end - RECORD_HEADER.size - BODY_BYTES_MAX)
    data = file.read(end - start, start)
    at = data.rfind(RECORD_MAGIC_BYTES)
    while at >= 0:
        if at % ALIGNMENT == 0 and _is_record(memoryview(data)[at:], position_of(segment, start + at)):
            return True
        at = data.rfind(RECORD_MAGIC_BYTES, 0, at + len(RECORD_MAGIC_BYTES) - 1)
    return False


def _is_record(data: memoryview, position: int) -> bool:
    """Returns whether these bytes are exactly one complete record."""
    try:
        if decode_header(data, position=position).record_bytes != len(data):
            return False
        decode_record(data, position=position)
    except BadRecordBytes:
        return False
    return True
