"""Crash recovery: replays the log, cuts a torn tail, refuses damage (rule B2).

A crash may leave these states; replay handles them as follows:

1. The last segment ends with the zeros of its preallocated space: its records end where the zeros begin.
2. The last group was torn: some of its records, or parts of them, are missing. None of it was
   acknowledged as durable, because its sync had not returned. The records before the first
   missing one are kept. The file is cut at that point, so that no record after the gap, which
   the bookie now denies having, can reappear after the next restart.
   The complete records of that group are rewritten before the sync, because if its own sync
   failed, the kernel may consider them clean although they never reached the disk.
3. A record is unreadable, but the `synced` field of a later one shows that this place was once on disk: that
   is damage, and the bookie refuses to start.
4. The newest segment has no header yet: the bookie crashed while creating it, and it is removed.

Only the newest segment may end early: a segment is truncated to its records and synced before the next one begins. A
missing segment was either dropped deliberately (`manifest.py`), or its loss is damage like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

from ..disk.disk import Disk, LogFile
from ..errors import DamagedLog
from . import manifest, segment_files
from .format import (
    SEGMENT_HEADER,
    BadRecordBytes,
    place_of,
    position_of,
)
from .record_reader import Found, durable_record_after, has_content, position_end, read_record

log = logging.getLogger(__name__)


def replay(disk: Disk, incarnation: str, from_position: int) -> Iterator[Found]:
    """Yields every record from `from_position` on, in order; cuts the torn tail of the last segment.

    When the iterator ends, every yielded record is on disk. Raises DamagedLog.
    """
    first, offset = place_of(from_position)
    known = segment_files.numbers(disk)
    if from_position and first not in known:
        raise DamagedLog(
            segment_files.name_of(first), offset, "the index refers to this segment, but it is missing"
        )
    manifest.check_complete(disk, first)
    for segment in (number for number in known if number >= first):
        newest = segment == known[-1]
        start = offset if segment == first and offset else SEGMENT_HEADER.size
        yield from _replay_segment(disk, incarnation, segment, start, newest=newest)


def _replay_segment(
    disk: Disk, incarnation: str, segment: int, start: int, *, newest: bool
) -> Iterator[Found]:
    with closing(disk.open(segment_files.name_of(segment))) as file:
        if newest and start == SEGMENT_HEADER.size and segment_files.is_unbegun(file):
            _remove_unbegun(disk, segment)
            return
        segment_files.check_header(file, segment, incarnation)
        if file.size() < start:
            raise DamagedLog(
                segment_files.name_of(segment), file.size(), "the segment is shorter than the index states"
            )
        end = last_group = start
        for found in _records(file, segment, start):
            last_group = max(start, place_of(found.header.synced)[1])
            end = place_of(position_end(found))[1]
            yield found
        _settle_end(file, segment, last_group, end, newest=newest)
        if not newest:
            _check_end(disk, segment, end, incarnation)


def _records(file: LogFile, segment: int, start: int) -> Iterator[Found]:
    offset = start
    while True:
        found = read_record(file, position_of(segment, offset))
        if isinstance(found, BadRecordBytes):
            return
        yield found
        offset += found.header.record_bytes


def _settle_end(file: LogFile, segment: int, last_group: int, end: int, *, newest: bool) -> None:
    """Distinguishes a torn tail from damage at the end of a segment: cuts off a torn tail, and raises DamagedLog for
    damage.

    Everything before `last_group` was on disk before the last record was written.
    """
    if not newest:
        if file.size() > end:
            raise DamagedLog(segment_files.name_of(segment), end, "no valid record, yet later segments exist")
        return
    witness = durable_record_after(file, segment, end)
    if witness is not None:
        raise DamagedLog(
            segment_files.name_of(segment),
            end,
            f"no valid record, although the record at offset {witness} was written later",
        )
    if has_content(file, end):
        line = (
            "cut the torn tail of %s at offset %d: it was never acknowledged, or was damaged later; missing entries "
            "will soon be fetched from other copies, or immediately by `bookledger bookie repair`"
        )
        log.warning(line, segment_files.name_of(segment), end)
    # The replayed records will be served, so they must not be lost in the next power failure.
    file.truncate(end)
    file.write([file.read(end - last_group, last_group)], last_group)
    file.datasync()


def _check_end(disk: Disk, segment: int, end: int, incarnation: str) -> None:
    if segment_files.name_of(segment + 1) not in disk.names():
        return  # the next segment was dropped; its header would have shown where this one ended
    with closing(disk.open(segment_files.name_of(segment + 1))) as following:
        if not segment_files.is_unbegun(following):
            segment_files.check_end(
                segment, end, segment_files.check_header(following, segment + 1, incarnation)
            )


def _remove_unbegun(disk: Disk, segment: int) -> None:
    log.warning(
        "removed %s: the bookie crashed before the file's header was written", segment_files.name_of(segment)
    )
    disk.remove(segment_files.name_of(segment))
    disk.sync_directory()
