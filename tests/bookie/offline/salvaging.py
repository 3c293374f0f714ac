"""A small log of three segments, and what a salvage makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from bookie.disk.disk import Disk
from bookie.index.claims import NO_CLAIMS, Claims
from bookie.log import segment_files
from bookie.log.format import SEGMENT_HEADER, BookieLogRecord, RecordKind, place_of, position_of, record_bytes
from bookie.offline.damage import LogScan
from bookie.offline.log_salvage import Mended, find, mend
from tests.bookie.logs import INCARNATION, found_in, record_of, use_small_sizes, write_each
from tests.bookie.simulated_disk import SimulatedDisk

FIRST, SECOND, THIRD = (segment_files.name_of(n) for n in range(3))
RECORDS = [record_of(1, [n]) for n in range(8)]
RECORD_BYTES = record_bytes(RECORDS[0])
PER_SEGMENT = 3

END = SEGMENT_HEADER.size + PER_SEGMENT * RECORD_BYTES
"""Where a full segment ends."""

LOST = BookieLogRecord(RecordKind.LOST, -1)
"""What replay gives for bytes that were lost."""


def offset_of(index: int) -> int:
    """Where the record of this number begins in its segment."""
    return SEGMENT_HEADER.size + index % PER_SEGMENT * RECORD_BYTES


def log_of(records: Sequence[BookieLogRecord], monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A stopped log of these records, each a group of its own; of RECORDS three, three and two in a segment."""
    use_small_sizes(monkeypatch, segment=END, group=RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    write_each(disk, records)
    return disk


def checkpoint_at(index: int) -> Claims:
    """What an index says that has everything before this record."""
    reach = {}
    for before in range(index):
        reach[before // PER_SEGMENT] = offset_of(before) + RECORD_BYTES
    return Claims(position_of(index // PER_SEGMENT, offset_of(index)), reach)


def salvaged(disk: Disk, claims: Claims = NO_CLAIMS, aside: Disk | None = None) -> list[Mended]:
    """What `salvage` does to a log, and says of it."""
    kept = aside or SimulatedDisk(Random(0))
    damaged = find(LogScan(disk, INCARNATION, claims))
    return [done for one in damaged for done in mend(disk, kept, one, INCARNATION, claims)]


def salvaged_for_good(
    disk: SimulatedDisk, claims: Claims = NO_CLAIMS, aside: Disk | None = None
) -> list[Mended]:
    """The same; and then there is nothing more to do."""
    done = salvaged(disk, claims, aside)
    assert nothing_more_to_do(disk, claims)
    return done


def nothing_more_to_do(disk: SimulatedDisk, claims: Claims = NO_CLAIMS) -> bool:
    operations = disk.operations
    return salvaged(disk, claims) == [] and disk.operations == operations


def stretches_of(disk: Disk) -> list[tuple[int, int, int]]:
    """(segment, offset, bytes) of every LOST record."""
    return [
        (*place_of(found.position), found.header.record_bytes)
        for found in found_in(disk)
        if found.record.kind is RecordKind.LOST
    ]
