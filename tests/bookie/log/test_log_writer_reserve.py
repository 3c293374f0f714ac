"""What is kept back of a full disk is given out for fences and recovery writes, and not without end (B4)."""

from __future__ import annotations

from random import Random

from bookie.log.format import SEGMENT_HEADER, record_bytes
from bookie.log.group_commit import RELEASES_MAX
from tests.bookie.logs import fence_of, record_of, records_in, write_all, writing
from tests.bookie.simulated_disk import SimulatedDisk

APPENDS = [record_of(1, [n]) for n in range(4)]
RECOVERED = record_of(1, [90])._replace(recovery=True)
FENCE = fence_of(1)
RECORD_BYTES = record_bytes(APPENDS[0])


def disk_with_room_for(records: int) -> SimulatedDisk:
    return SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size + records * RECORD_BYTES)


class DiskReserve:
    """Lets a simulated disk grow by so much, once."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk, self._size = disk, 10 * RECORD_BYTES
        self.is_touched = False

    def release(self, size: int) -> bool:
        if self.is_touched or size > self._size:
            return False
        self.is_touched = True
        assert self._disk.capacity_bytes is not None
        self._disk.capacity_bytes += self._size
        return True


def test_fences_and_recovery_writes_find_room_where_appends_find_none() -> None:
    disk = disk_with_room_for(2)
    with writing(disk, reserve=DiskReserve(disk)) as (writer, reports):
        for record in APPENDS[:2]:
            writer.submit(record, record)
            reports.wait_for(durable=len(reports.durable) + 1)
        for record in (APPENDS[2], FENCE, RECOVERED, APPENDS[3]):
            writer.submit(record, record)
        reports.wait_for(durable=4, refused=2)
    assert reports.refused == APPENDS[2:]
    assert records_in(disk) == [*APPENDS[:2], FENCE, RECOVERED]


def test_no_append_takes_of_the_reserve_once_it_is_open() -> None:
    """B4: there may be room for it, and it is not for appends."""
    disk = disk_with_room_for(0)
    reports = write_all(disk, [APPENDS[0], FENCE, APPENDS[1]], reserve=DiskReserve(disk))
    assert (reports.acknowledged, reports.refused) == ([FENCE], APPENDS[:2])
    assert records_in(disk) == [FENCE]


def test_a_log_is_begun_on_a_full_disk_with_what_was_kept_back() -> None:
    """B4: or a bookie that stopped could not serve what it has."""
    disk = SimulatedDisk(Random(0), capacity_bytes=10)
    assert write_all(disk, [FENCE], reserve=DiskReserve(disk)).acknowledged == [FENCE]


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
    reports = write_all(disk_with_room_for(0), [FENCE], reserve=reserve)
    assert (reports.acknowledged, reports.refused, reports.failures) == ([], [FENCE], [])
    assert reserve.released == [record_bytes(FENCE)] * RELEASES_MAX


def test_nothing_is_given_out_for_appends_that_were_refused() -> None:
    reserve = TakenReserve()
    reports = write_all(disk_with_room_for(0), APPENDS[:1], reserve=reserve)
    assert (reports.refused, reserve.released) == (APPENDS[:1], [])
