"""A walk shows all records of a segment, also those behind damage, and says what lies between."""

from __future__ import annotations

from random import Random

import pytest

from bookie.log.format import SEGMENT_HEADER, record_bytes
from bookie.log.record_reader import Found
from bookie.log.segment_walk import GapKind, walk
from tests.bookie.logs import record_of, write_all, write_each
from tests.bookie.simulated_disk import SimulatedDisk

FIRST = "00000000.log"
RECORDS = [record_of(1, [n]) for n in range(4)]
RECORD_BYTES = record_bytes(RECORDS[0])
END = SEGMENT_HEADER.size + len(RECORDS) * RECORD_BYTES

Seen = list[int | tuple[GapKind, int, int]]


def offset_of(index: int) -> int:
    return SEGMENT_HEADER.size + index * RECORD_BYTES


def seen_on(disk: SimulatedDisk) -> Seen:
    """Numbers of RECORDS, and what lies between them."""
    operations, seen = disk.operations, Seen()
    for one in walk(disk, 0):
        seen.append(RECORDS.index(one.record) if isinstance(one, Found) else (one.what, one.offset, one.end))
    assert disk.operations == operations, "it changes nothing"
    return seen


@pytest.fixture
def one_group() -> SimulatedDisk:
    """None of its records says that one before it was on disk."""
    disk = SimulatedDisk(Random(0))
    write_all(disk, RECORDS)
    return disk


@pytest.fixture
def groups() -> SimulatedDisk:
    """Each record says that those before it were on disk."""
    disk = SimulatedDisk(Random(0))
    write_each(disk, RECORDS)
    return disk


def test_a_whole_segment_is_its_records(groups: SimulatedDisk) -> None:
    assert seen_on(groups) == [0, 1, 2, 3]


def test_what_was_on_disk_once_is_damage_as_far_as_the_next_whole_record(groups: SimulatedDisk) -> None:
    groups.overwrite(FIRST, offset_of(1) + 90, b"?")
    assert seen_on(groups) == [0, (GapKind.DAMAGE, offset_of(1), offset_of(2)), 2, 3]
    groups.overwrite(FIRST, offset_of(2) + 3, b"?")
    assert seen_on(groups) == [0, (GapKind.DAMAGE, offset_of(1), offset_of(3)), 3]


def test_a_hole_in_a_group_that_was_never_acknowledged_is_a_torn_tail(one_group: SimulatedDisk) -> None:
    one_group.overwrite(FIRST, offset_of(1) + 90, b"?")
    assert seen_on(one_group) == [0, (GapKind.TORN, offset_of(1), offset_of(2)), 2, 3]


def test_what_nothing_follows_is_a_torn_tail_or_empty_space(groups: SimulatedDisk) -> None:
    groups.resize(FIRST, END + 1000)
    assert seen_on(groups) == [0, 1, 2, 3, (GapKind.SPACE, END, END + 1000)]
    groups.overwrite(FIRST, END + 500, b"?")
    assert seen_on(groups) == [0, 1, 2, 3, (GapKind.TORN, END, END + 1000)]
    groups.resize(FIRST, END - 10)
    assert seen_on(groups) == [0, 1, 2, (GapKind.TORN, offset_of(3), END - 10)]


def test_a_segment_whose_header_cannot_be_read_has_its_records_still(groups: SimulatedDisk) -> None:
    groups.overwrite(FIRST, 0, b"?")
    assert seen_on(groups) == [(GapKind.HEADER, 0, SEGMENT_HEADER.size), 0, 1, 2, 3]
