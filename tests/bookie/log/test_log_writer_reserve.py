"""B4: what is kept back of a full disk is given out for fences and recovery writes, and not without end."""

from __future__ import annotations

from random import Random

from bookie.log.format import SEGMENT_HEADER, record_bytes
from bookie.log.writer import RELEASES_MAX
from tests.bookie.disk.test_space import DiskReserve
from tests.bookie.logs import fence_of, record_of, records_in, writer_on
from tests.bookie.simulated_disk import SimulatedDisk

RECORDS = [record_of(1, [n]) for n in range(2)]
RECORD_BYTES = record_bytes(RECORDS[0])


def test_a_fence_in_a_group_that_found_no_room_is_written_to_what_was_kept_back() -> None:
    """B4, R1"""
    disk = SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size)
    writer, reports = writer_on(disk, reserve=DiskReserve(disk, RECORD_BYTES))
    for record in (RECORDS[0], fence_of(1), RECORDS[1]):
        writer.submit(record, 0)
    writer.start()
    writer.stop()
    assert (reports.acknowledged, reports.refused) == ([fence_of(1)], RECORDS)
    assert records_in(disk) == [fence_of(1)]


class TakenReserve:
    """What it gives out somebody else on the disk takes."""

    def __init__(self) -> None:
        self.released: list[int] = []

    @property
    def is_touched(self) -> bool:
        return bool(self.released)

    def release(self, size: int) -> bool:
        self.released.append(size)
        return True


def test_a_fence_is_refused_where_somebody_else_takes_all_that_was_kept_back() -> None:
    """B4: the rest of the reserve stays for the next one."""
    reserve = TakenReserve()
    disk = SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size)
    writer, reports = writer_on(disk, reserve=reserve)
    writer.submit(fence_of(1), 0)
    writer.start()
    writer.stop()
    assert (reports.acknowledged, reports.refused, reports.failures) == ([], [fence_of(1)], [])
    assert reserve.released == [record_bytes(fence_of(1))] * RELEASES_MAX


def test_nothing_is_given_out_for_appends_that_were_refused() -> None:
    """B4"""
    reserve = TakenReserve()
    disk = SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size)
    writer, reports = writer_on(disk, reserve=reserve)
    writer.submit(RECORDS[0], 0)
    writer.start()
    writer.stop()
    assert (reports.refused, reserve.released) == ([RECORDS[0]], [])
