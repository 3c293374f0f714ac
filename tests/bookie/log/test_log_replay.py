"""B2: after any crash everything acknowledged is there; a torn tail is cut; damage is named and nothing is changed."""

from __future__ import annotations

import errno
from random import Random

import pytest

from bookie.errors import DamagedLog
from bookie.log import manifest, segment_files
from bookie.log import record_reader as records_module
from bookie.log.format import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    BookieLogRecord,
    SegmentHeader,
    encode_record,
    encode_segment_header,
    position_of,
    record_bytes,
)
from bookie.log.log_replay import replay
from bookie.log.manifest import LogManifest
from tests.bookie.logs import (
    INCARNATION,
    Reports,
    fence_of,
    record_of,
    records_in,
    use_small_sizes,
    write_all,
    write_each,
    writing,
)
from tests.bookie.simulated_disk import SimulatedDisk, disk_with

FIRST = "00000000.log"
RECORDS = [record_of(1, [n]) for n in range(6)]
RECORD_BYTES = record_bytes(RECORDS[0])


def offset_of(index: int) -> int:
    return SEGMENT_HEADER.size + index * RECORD_BYTES


def disk_with_records(count: int = len(RECORDS)) -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    write_each(disk, RECORDS[:count])
    return disk


def disk_with_one_group(count: int) -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    assert write_all(disk, RECORDS[:count]).groups == [count]
    return disk


def refusal_of(disk: SimulatedDisk, from_position: int = 0) -> DamagedLog:
    """What a start says that must refuse; it changes nothing."""
    before, operations = disk.contents(), disk.operations
    with pytest.raises(DamagedLog) as refused:
        list(replay(disk, INCARNATION, from_position))
    assert (disk.contents(), disk.operations) == (before, operations)
    return refused.value


def after_restart_and_crash(disk: SimulatedDisk) -> list[BookieLogRecord]:
    """What a start finds; it must be what the next one finds, too, whatever is lost in between."""
    found = records_in(disk)
    disk.crash()
    assert records_in(disk) == found
    return found


# --- the end of the log


def test_an_empty_directory_is_an_empty_log() -> None:
    assert records_in(SimulatedDisk(Random(0))) == []


def test_the_zeros_a_segment_was_prepared_with_are_its_end() -> None:
    disk = disk_with_records(3)
    disk.resize(FIRST, offset_of(3) + 50_000)
    assert records_in(disk) == RECORDS[:3]
    assert len(disk.contents()[FIRST]) == offset_of(3)


def test_B2_a_torn_tail_is_cut_wherever_the_last_record_was_torn() -> None:
    whole = disk_with_records(3).contents()[FIRST]
    end = SEGMENT_HEADER.size + RECORD_BYTES * 2 + RECORD_HEADER.size + 44  # without padding
    for size in range(offset_of(2), len(whole)):
        disk = disk_with([(FIRST, whole[:size])], Random(size))
        assert after_restart_and_crash(disk) == (RECORDS[:2] if size < end else RECORDS[:3])


def test_B2_a_record_whose_end_was_never_written_is_cut() -> None:
    whole = disk_with_records(3).contents()[FIRST]
    for size in range(offset_of(2), offset_of(3) - 16, 8):
        disk = disk_with([(FIRST, whole[:size].ljust(len(whole) + 4096, b"\0"))], Random(size))
        assert after_restart_and_crash(disk) == RECORDS[:2]
        assert len(disk.contents()[FIRST]) == offset_of(2)


@pytest.mark.parametrize("hole", range(3))
def test_B2_a_hole_in_an_unsynced_group_cuts_the_group_there_for_good(hole: int) -> None:
    """B2: a whole record behind the hole was never acknowledged, and must not come back later."""
    disk = disk_with_one_group(4)
    disk.overwrite(FIRST, offset_of(hole), bytes(RECORD_BYTES))
    assert after_restart_and_crash(disk) == RECORDS[:hole]
    following = 0 if hole == 0 else 1
    write_all(disk, [fence_of(9)], segment=following)
    assert after_restart_and_crash(disk) == [*RECORDS[:hole], fence_of(9)]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_B2_a_sealed_segment_that_lost_whole_records_at_its_end_is_damage(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """B2: it looks as if it had never had them, but the next segment says where it ended."""
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 3 * RECORD_BYTES, group=RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    write_all(disk, RECORDS)
    assert records_in(disk) == RECORDS
    disk.resize(FIRST, offset_of(3 - lost))
    with pytest.raises(DamagedLog, match="it was cut: the next segment says that it ended at") as refused:
        records_in(disk)
    assert (refused.value.file, refused.value.offset) == (FIRST, offset_of(3 - lost))


def test_a_segment_begun_after_a_restart_knows_where_the_one_before_it_ended() -> None:
    disk = disk_with_records(3)
    records_in(disk)
    write_all(disk, [fence_of(9)], segment=1)
    assert records_in(disk) == [*RECORDS[:3], fence_of(9)]
    disk.resize(FIRST, offset_of(2))
    with pytest.raises(DamagedLog, match="it was cut"):
        records_in(disk)


def test_a_segment_whose_beginning_was_lost_is_removed() -> None:
    header = encode_segment_header(SegmentHeader(1, INCARNATION))
    for beginning in (b"", header[:30], bytes(64), header[:32] + bytes(32)):
        disk = disk_with([(FIRST, disk_with_records().contents()[FIRST])], Random(0))
        disk.create("00000001.log").write([beginning], 0)
        assert records_in(disk) == RECORDS
        assert disk.names() == [FIRST]
        disk.crash()
        assert records_in(disk) == RECORDS


# --- damage


@pytest.mark.parametrize("index", range(len(RECORDS) - 1))
def test_B2_damage_before_a_record_that_was_written_later_refuses_to_start(index: int) -> None:
    for at in range(0, RECORD_BYTES - 4, 8):
        disk = disk_with_records()
        byte = disk.contents()[FIRST][offset_of(index) + at]
        disk.overwrite(FIRST, offset_of(index) + at, bytes([byte ^ 0x40]))
        refused = refusal_of(disk)
        assert (refused.file, refused.offset) == (FIRST, offset_of(index))
        assert f"{FIRST} is damaged at offset {offset_of(index)}" in str(refused)


def test_damage_is_seen_however_far_behind_it_the_next_whole_record_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records_module, "SEARCH_BYTES", 40)
    disk = disk_with_records()
    disk.overwrite(FIRST, offset_of(1), bytes(RECORD_BYTES * 3))
    assert refusal_of(disk).offset == offset_of(1)


def test_B2_damage_in_a_segment_that_others_follow_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 2 * RECORD_BYTES, group=RECORD_BYTES)
    for damage in ("flip", "zeros behind", "cut into"):
        disk = SimulatedDisk(Random(0))
        write_all(disk, RECORDS)
        assert disk.names() == [segment_files.name_of(n) for n in range(3)]
        match damage:
            case "flip":
                disk.overwrite(FIRST, offset_of(1) + 90, b"?")
            case "zeros behind":
                disk.resize(FIRST, offset_of(2) + 8)
            case "cut into":
                disk.resize(FIRST, offset_of(2) - 20)
        refused = refusal_of(disk)
        assert (refused.file, refused.offset) == (FIRST, offset_of(2 if damage == "zeros behind" else 1))


def test_a_damaged_segment_header_refuses_to_start() -> None:
    """B2: also in the newest segment, whose header was on disk before anything followed it."""
    for at, length in ((0, 64), (0, 8), (20, 1), (40, 1), (63, 1)):
        disk = disk_with_records()
        disk.overwrite(FIRST, at, b"\0" * length if length > 1 else b"?")
        refused = refusal_of(disk)
        assert (refused.file, refused.offset) == (FIRST, 0)


def test_a_segment_of_another_bookie_refuses_to_start() -> None:
    disk = disk_with_records()
    other = "00000000-66b0-4f3e-9d0c-2b1f6f0d8a11"
    disk.overwrite(FIRST, 0, encode_segment_header(SegmentHeader(0, other)))
    assert f"written by another bookie, incarnation {other}" in str(refusal_of(disk))


def test_a_segment_under_another_name_refuses_to_start() -> None:
    disk = disk_with_records()
    disk.overwrite(FIRST, 0, encode_segment_header(SegmentHeader(5, INCARNATION)))
    assert "it is segment 5 under another name" in str(refusal_of(disk))


def test_a_missing_segment_that_the_checkpoint_refers_to_refuses_to_start() -> None:
    """R6: its entries were acknowledged, and would else be taken for absent."""
    disk = disk_with_records()
    disk.lose(FIRST)
    refused = refusal_of(disk, position_of(0, offset_of(2)))
    assert (refused.file, refused.offset) == (FIRST, offset_of(2))
    assert "is missing" in str(refused)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gap_in_the_segments_refuses_to_start(missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 2 * RECORD_BYTES, group=RECORD_BYTES)
    disk = SimulatedDisk(Random(0))
    write_all(disk, RECORDS)
    disk.lose(segment_files.name_of(missing))
    refused = refusal_of(disk)
    assert refused.file == segment_files.name_of(missing)
    assert "is missing, yet later ones exist" in str(refused)


# --- what a failed sync leaves


def test_what_a_failed_sync_left_in_memory_is_on_disk_before_it_is_served() -> None:
    """B1, R1: the kernel holds the bytes as clean; a start that only syncs them would serve a fence
    that the next crash takes away."""
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        with writing(disk) as (writer, reports):
            writer.submit(RECORDS[0], 0)
            reports.wait_for(durable=1)
            disk.fail_sync_after(0, OSError(errno.EIO, "the disk is broken"))
            writer.submit(fence_of(1), 0)
            reports.wait_for(durable=1, failures=1)
        assert after_restart_and_crash(disk) == [RECORDS[0], fence_of(1)]


# --- any crash

WORKLOAD = [
    *(record_of(1, [n]) for n in range(4)),
    fence_of(1),
    record_of(2, range(5), payload_bytes=60),
    record_of(3, [0], payload_bytes=700),
    *(record_of(2, [n]) for n in range(5, 9)),
    fence_of(77),
    *(record_of(4, [n, n + 2], payload_bytes=40) for n in range(0, 12, 4)),
]
CRASHES_PER_OPERATION = 12


def crash_during(operation: int, seed: int) -> tuple[SimulatedDisk, Reports]:
    """The workload on a machine that loses power before this operation, and comes back."""
    disk = SimulatedDisk(Random(seed))
    disk.power_off_before(operation)
    reports = Reports()
    try:
        reports = write_all(disk, WORKLOAD)
    except OSError as error:  # before the first segment was there
        reports.on_failure(error)
    disk.crash()
    return disk, reports


def test_B2_after_a_crash_at_any_operation_all_that_was_acknowledged_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_sizes(monkeypatch, segment=900, group=420, step=600)
    calm = SimulatedDisk(Random(0))
    assert write_all(calm, WORKLOAD).acknowledged == WORKLOAD
    assert len(calm.names()) >= 4
    for operation in range(calm.operations + 1):
        for seed in range(CRASHES_PER_OPERATION):
            disk, reports = crash_during(operation, seed)
            assert bool(reports.failures) == (operation < calm.operations)
            found = after_restart_and_crash(disk)
            assert found == WORKLOAD[: len(found)]
            assert found[: len(reports.acknowledged)] == reports.acknowledged


def test_a_crash_while_the_torn_tail_is_being_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """B2: what one start has found, and might have served, every later one finds."""
    use_small_sizes(monkeypatch, segment=900, group=420, step=600)
    for seed in range(100):
        disk, reports = crash_during(20, seed)
        disk.power_off_before(seed % 4)
        try:
            assert records_in(disk)[: len(reports.acknowledged)] == reports.acknowledged
        except OSError:
            pass
        disk.crash()
        found = after_restart_and_crash(disk)
        assert found == WORKLOAD[: len(found)]
        assert found[: len(reports.acknowledged)] == reports.acknowledged


def test_B2_a_record_that_says_less_was_synced_than_before_it_lies_is_no_proof_of_damage() -> None:
    """The same group, written by hand: its records all say that only the header was on disk."""
    synced = position_of(0, SEGMENT_HEADER.size)
    parts: list[bytes | memoryview] = [encode_segment_header(SegmentHeader(0, INCARNATION))]
    for index, record in enumerate(RECORDS[:3]):
        parts += encode_record(record, position=position_of(0, offset_of(index)), synced=synced)
    disk = disk_with([(FIRST, b"".join(parts))], Random(0))
    disk.overwrite(FIRST, offset_of(1) + 70, b"?")
    assert records_in(disk) == RECORDS[:1]


# --- segments that were dropped are told from those that were lost


def disk_of_segments(monkeypatch: pytest.MonkeyPatch, *records: BookieLogRecord) -> SimulatedDisk:
    """A stopped log with each of these records in a segment of its own."""
    use_small_sizes(monkeypatch, segment=SEGMENT_HEADER.size + 1, group=1)
    disk = SimulatedDisk(Random(0))
    write_all(disk, records)
    assert segment_files.numbers(disk) == list(range(len(records)))
    return disk


def test_a_segment_that_was_dropped_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = manifest.to_record([1])
    disk = disk_of_segments(monkeypatch, RECORDS[0], RECORDS[1], said, RECORDS[3])
    disk.lose(segment_files.name_of(0))
    assert records_in(disk) == [RECORDS[1], said, RECORDS[3]]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_segment_that_was_kept_or_came_later_is_missed(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """R6: nobody has said that it was given up; of what is behind it, it says nothing."""
    disk = disk_of_segments(
        monkeypatch, RECORDS[0], RECORDS[1], manifest.to_record([1]), RECORDS[3], RECORDS[4]
    )
    disk.lose(segment_files.name_of(lost))
    with pytest.raises(DamagedLog, match="is missing, yet later ones exist") as refused:
        records_in(disk)
    assert refused.value.file == segment_files.name_of(lost)


def test_the_newest_record_that_names_segments_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [manifest.to_record(kept) for kept in ([0], [0, 1])]
    assert manifest.newest(disk_of_segments(monkeypatch, RECORDS[0])) is None
    disk = disk_of_segments(monkeypatch, RECORDS[0], said[0], said[1], RECORDS[3])
    assert manifest.newest(disk) == LogManifest(2, frozenset([0, 1]))
