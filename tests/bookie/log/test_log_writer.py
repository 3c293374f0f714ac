"""The log's writer: one sync for all that waited, and nothing is reported that is not on disk."""

from __future__ import annotations

import errno
import threading
from random import Random

import pytest

from bookie.errors import DamagedLog
from bookie.log import segment_files
from bookie.log.appender import LogAppender
from bookie.log.format import SEGMENT_HEADER, BookieLogRecord, position_of, record_bytes
from bookie.wire.messages import LacStatement
from tests.bookie.logs import (
    INCARNATION,
    WAIT_SECONDS_MAX,
    fence_of,
    record_of,
    records_in,
    use_small_sizes,
    write_all,
    writer_on,
    writing,
)
from tests.bookie.platter import Inode
from tests.bookie.simulated_disk import SimulatedDisk, SimulatedFile

RECORDS = [record_of(1, [n]) for n in range(20)]
RECORD_BYTES = 128


class SlowSyncDisk(SimulatedDisk):
    """A disk whose syncs of files wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.slow = False
        self.syncing = threading.Event()
        self.go_on = threading.Event()

    def sync_of(self, inode: Inode) -> None:
        if self.slow:
            self.syncing.set()
            assert self.go_on.wait(WAIT_SECONDS_MAX)
        super().sync_of(inode)


def disk_with_room(bytes_for_records: int) -> SimulatedDisk:
    return SimulatedDisk(Random(0), capacity_bytes=SEGMENT_HEADER.size + bytes_for_records)


def test_nothing_is_reported_before_its_sync_has_returned() -> None:
    disk = SlowSyncDisk()
    with writing(disk) as (writer, reports):
        disk.slow = True
        writer.submit(RECORDS[0], "ticket")
        assert disk.syncing.wait(WAIT_SECONDS_MAX)
        assert reports.durable == []
        disk.go_on.set()
        reports.wait_for(durable=1)
    assert [(w.record, w.position, w.size, w.ticket) for w in reports.durable] == [
        (RECORDS[0], position_of(0, SEGMENT_HEADER.size), RECORD_BYTES, "ticket")
    ]


def test_all_that_waited_during_a_sync_is_one_group_with_one_sync() -> None:
    disk = SlowSyncDisk()
    with writing(disk) as (writer, reports):
        disk.slow = True
        writer.submit(RECORDS[0], 0)
        assert disk.syncing.wait(WAIT_SECONDS_MAX)
        for record in RECORDS[1:]:
            writer.submit(record, 0)
        disk.go_on.set()
        reports.wait_for(durable=len(RECORDS))
        assert writer.syncs == 2
    assert reports.groups == [1, len(RECORDS) - 1]


def test_records_are_reported_in_the_order_they_were_submitted_in() -> None:
    disk = SimulatedDisk(Random(0))
    reports = write_all(disk, RECORDS)
    assert reports.acknowledged == RECORDS == records_in(disk)
    positions = [written.position for written in reports.durable]
    assert positions == sorted(positions)


def test_records_of_many_threads_are_each_written_once() -> None:
    disk = SimulatedDisk(Random(0))
    with writing(disk) as (writer, reports):
        of_thread = [[record_of(ledger, [n]) for n in range(50)] for ledger in range(4)]

        def submit(records: list[BookieLogRecord]) -> None:
            for record in records:
                writer.submit(record, 0)

        threads = [threading.Thread(target=submit, args=(records,)) for records in of_thread]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for ledger, records in enumerate(of_thread):
        assert [record for record in reports.acknowledged if record.ledger_id == ledger] == records
    assert records_in(disk) == reports.acknowledged


def test_a_group_takes_no_more_than_its_bytes_and_at_least_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_sizes(monkeypatch, group=2 * RECORD_BYTES)
    large = record_of(1, [99], payload_bytes=1000)
    reports = write_all(SimulatedDisk(Random(0)), [*RECORDS[:3], large, *RECORDS[3:6]])
    assert reports.groups == [2, 1, 1, 2, 1]


def test_a_full_segment_is_followed_by_the_next_and_is_cut_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_sizes(monkeypatch, segment=1000, group=RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    reports = write_all(disk, RECORDS)
    per_segment = (1000 - SEGMENT_HEADER.size) // RECORD_BYTES
    assert [written.position for written in reports.durable] == [
        position_of(n // per_segment, SEGMENT_HEADER.size + n % per_segment * RECORD_BYTES)
        for n in range(len(RECORDS))
    ]
    sizes = [len(data) for _, data in sorted(disk.contents().items())]
    assert sizes == [SEGMENT_HEADER.size + count * RECORD_BYTES for count in (7, 7, 6)]
    assert records_in(disk) == RECORDS


def test_a_record_larger_than_a_segment_gets_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=1000, group=RECORD_BYTES)
    records = [RECORDS[0], record_of(1, [1], payload_bytes=3000), RECORDS[2]]
    disk = SimulatedDisk(Random(0))
    reports = write_all(disk, records)
    assert [written.position >> 32 for written in reports.durable] == [0, 1, 2]
    assert records_in(disk) == records


def test_a_segment_that_was_begun_and_not_written_to_is_used_again() -> None:
    disk = SimulatedDisk(Random(0))
    write_all(disk, [])
    write_all(disk, RECORDS)
    assert disk.names() == ["00000000.log"]
    assert records_in(disk) == RECORDS


def test_a_segment_used_again_has_its_name_on_disk_before_anything_is_acknowledged() -> None:
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        disk.power_off_before(3)  # created, written, synced; its name was not
        with pytest.raises(OSError, match="power"):
            writer_on(disk)
        disk.power_off_before(1_000_000)  # only the process had died: the machine still knows the name
        assert write_all(disk, RECORDS).acknowledged == RECORDS
        disk.crash()
        assert records_in(disk) == RECORDS


def test_a_segment_of_another_bookie_is_not_written_to() -> None:
    disk = SimulatedDisk(Random(0))
    write_all(disk, [])
    before = disk.contents()
    with pytest.raises(DamagedLog, match="written by another bookie"):
        writer_on(disk, incarnation="00000000-66b0-4f3e-9d0c-2b1f6f0d8a11")
    assert disk.contents() == before


def test_a_segment_with_content_is_not_begun_anew() -> None:
    disk = SimulatedDisk(Random(0))
    write_all(disk, RECORDS[:1])
    before = disk.contents()
    with pytest.raises(DamagedLog, match=r"00000000\.log is damaged at offset 64: .* has content"):
        writer_on(disk)
    assert disk.contents() == before


def test_a_full_disk_refuses_the_group_and_takes_it_back() -> None:
    disk = disk_with_room(3 * RECORD_BYTES)
    with writing(disk) as (writer, reports):
        writer.submit(RECORDS[0], 0)
        reports.wait_for(durable=1)
        writer.submit(record_of(1, [1], payload_bytes=1000), 0)
        reports.wait_for(durable=1, refused=1)
        writer.submit(RECORDS[2], 0)
        reports.wait_for(durable=2, refused=1)
    assert reports.acknowledged == [RECORDS[0], RECORDS[2]] == records_in(disk)
    assert reports.failures == []


def test_none_of_a_refused_group_is_there_after_a_crash() -> None:
    for seed in range(50):
        disk = disk_with_room(3 * RECORD_BYTES)
        disk.random = Random(seed)
        writer, reports = writer_on(disk)
        for record in RECORDS[:5]:  # three would fit, five do not
            writer.submit(record, 0)
        writer.start()
        reports.wait_for(refused=5)
        disk.crash()
        assert records_in(disk) == []
        writer.stop()


def test_a_segment_that_was_sealed_takes_nothing_more_where_the_next_could_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_sizes(monkeypatch, segment=1000, group=400)
    for room_for_next_header in (0, 10, SEGMENT_HEADER.size):
        disk = disk_with_room(5 * RECORD_BYTES + room_for_next_header)
        with writing(disk) as (writer, reports):
            for count, record in enumerate(RECORDS[:5], 1):
                writer.submit(record, 0)
                reports.wait_for(durable=count)
            writer.submit(record_of(1, [5], payload_bytes=300), 0)
            reports.wait_for(durable=5, refused=1)
            disk.capacity_bytes = None
            writer.submit(fence_of(1), 0)  # small enough for the first segment
            reports.wait_for(durable=6, refused=1)
            disk.crash()
            assert records_in(disk) == [*RECORDS[:5], fence_of(1)]
            assert reports.durable[-1].position == position_of(1, SEGMENT_HEADER.size)


def test_after_a_failed_sync_nothing_is_acknowledged_any_more() -> None:
    disk = SimulatedDisk(Random(0))
    with writing(disk) as (writer, reports):
        disk.fail_sync_after(1, OSError(errno.EIO, "the disk is broken"))
        writer.submit(RECORDS[0], 0)
        reports.wait_for(durable=1)
        writer.submit(RECORDS[1], 0)
        reports.wait_for(durable=1, failures=1)
        writer.submit(RECORDS[2], 0)
    assert reports.acknowledged == RECORDS[:1]
    assert [str(error) for error in reports.failures] == ["[Errno 5] the disk is broken"]
    assert reports.refused == []


@pytest.mark.parametrize(
    "trouble", ["the disk is full at the sync", "the write fails", "no record can hold what is to be written"]
)
def test_a_log_that_failed_says_so_and_acknowledges_nothing(trouble: str) -> None:
    disk, record = SimulatedDisk(Random(0)), RECORDS[0]
    with writing(disk) as (writer, reports):
        if trouble == "the disk is full at the sync":
            disk.fail_sync_after(0, OSError(errno.ENOSPC, "no space"))
        elif trouble == "the write fails":
            disk.power_off_before(0)
        else:
            record = record._replace(last_add_confirmed=LacStatement(0, 0, bytes(70_000)))
        writer.submit(record, 0)
        reports.wait_for(failures=1)
    assert (reports.acknowledged, reports.refused) == ([], [])


def test_small_groups_go_to_zeroed_space_and_large_ones_to_reserved_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_sizes(monkeypatch, segment=100_000, group=4000, step=1000)
    prepared: list[str] = []

    class WatchedFile(SimulatedFile):
        def zero(self, offset: int, size: int) -> None:
            prepared.append("zero")
            super().zero(offset, size)

        def reserve(self, offset: int, size: int) -> None:
            prepared.append("reserve")
            super().reserve(offset, size)

    class WatchedDisk(SimulatedDisk):
        def create(self, name: str) -> SimulatedFile:
            super().create(name)
            return WatchedFile(self, self._names[name])

    large = record_of(1, [1], payload_bytes=3900)
    disk = WatchedDisk(Random(0))
    write_all(disk, [RECORDS[0], large, RECORDS[2]])
    assert prepared == ["zero", "reserve", "zero"]
    assert records_in(disk) == [RECORDS[0], large, RECORDS[2]]


def test_segments_are_named_by_their_number_in_an_order_that_sorts() -> None:
    disk = SimulatedDisk(Random(0))
    for number in (255, 3, 16):
        segment_files.resume_or_begin(disk, number, INCARNATION).close()
    disk.create("notes.txt")
    assert segment_files.numbers(disk) == [3, 16, 255]
    assert segment_files.name_of(255) == "000000ff.log"


# --- the log's end grows into space that was prepared


def test_space_is_prepared_once_for_all_the_records_that_fit_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every small group would write so much more than itself."""
    use_small_sizes(monkeypatch, segment=100_000, group=4000, step=4 * RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    appender = LogAppender(disk, INCARNATION, 0)
    writes = []
    for record in RECORDS[:10]:
        before = disk.operations
        appender.append([record], [record_bytes(record)])
        writes.append(disk.operations - before)
    assert writes == [2, 1, 1, 1, 2, 1, 1, 1, 2, 1]
    appender.seal()
    assert records_in(disk) == RECORDS[:10]
