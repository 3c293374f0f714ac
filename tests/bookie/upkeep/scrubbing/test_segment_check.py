"""Whatever bit of a segment is another than it was, reading the segment shows it (R6)."""

from __future__ import annotations

import errno
from random import Random

import pytest

from bookie.index.frame_locations import place_of_frame
from bookie.log import segment_files
from bookie.log.format import RECORD_HEADER, SEGMENT_HEADER, aligned, place_of
from bookie.log.log_replay import replay
from bookie.upkeep.scrubbing import segment_check
from bookie.upkeep.scrubbing.segment_check import CheckStep, check_segment
from tests.bookie.logs import INCARNATION, fence_of, record_of, use_small_sizes, write_all
from tests.bookie.simulated_disk import SimulatedDisk

RECORDS = [
    record_of(7, range(3)),
    fence_of(8),
    record_of(9, [5], 33),
    record_of(7, range(3, 9)),
    fence_of(404),
]


def a_log(monkeypatch: pytest.MonkeyPatch, *, segment: int = 1 << 20) -> SimulatedDisk:
    use_small_sizes(monkeypatch, segment=segment)
    disk = SimulatedDisk(Random(1))
    write_all(disk, RECORDS)
    return disk


def whole(disk: SimulatedDisk, segment: int = 0, synced: int | None = None) -> CheckStep:
    """All steps as one."""
    total = CheckStep()
    for step in check_segment(disk, segment, INCARNATION, synced):
        total.bytes += step.bytes
        total.records += step.records
        total.frames += step.frames
        total.damaged += step.damaged
    return total


def ends(disk: SimulatedDisk) -> list[tuple[int, int, int]]:
    """(offset, end of what its checksum covers, end) of each record."""
    found = []
    for one in replay(disk, INCARNATION, 0):
        offset = place_of(one.position)[1]
        size = RECORD_HEADER.size + one.header.body_bytes
        found.append((offset, offset + size, offset + aligned(size)))
    return found


def ends_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Those of an undamaged log in one segment."""
    return ends(a_log(monkeypatch))


def test_a_whole_segment_holds_its_frames_and_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = a_log(monkeypatch)
    found = whole(disk)
    assert (found.records, found.damaged) == (len(RECORDS), [])
    assert found.bytes == len(disk.contents()[segment_files.name_of(0)])
    frames = [
        (one.record.ledger_id, place_of_frame(one.record.columns, one.position, one.header.record_bytes))
        for one in replay(disk, INCARNATION, 0)
    ]
    assert found.frames == [(ledger_id, place) for ledger_id, place in frames if place is not None]


def test_every_bit_that_is_another_is_found_and_costs_its_own_record_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R6: but for the padding behind a record, which means nothing."""
    disk = a_log(monkeypatch)
    name = segment_files.name_of(0)
    data = disk.contents()[name]
    spans = [(0, SEGMENT_HEADER.size, SEGMENT_HEADER.size), *ends(disk)]
    for begin, covered, end in spans:
        for offset in range(begin, covered):
            for bit in range(8):
                disk.overwrite(name, offset, bytes([data[offset] ^ 1 << bit]))
                found = whole(disk)
                assert [(one.offset, one.end) for one in found.damaged] == [(begin, end)], (offset, bit)
                assert found.records == len(RECORDS) - (begin > 0)
                disk.overwrite(name, offset, data[offset : offset + 1])


@pytest.mark.parametrize("step_bytes", [1, 100, 300, 1 << 20])
def test_steps_of_any_size_read_the_same(monkeypatch: pytest.MonkeyPatch, step_bytes: int) -> None:
    disk = a_log(monkeypatch)
    disk.overwrite(segment_files.name_of(0), ends(disk)[2][0] + 30, b"rot")
    expected = whole(disk)
    monkeypatch.setattr(segment_check, "STEP_BYTES", step_bytes)
    monkeypatch.setattr(segment_check, "SEARCH_BYTES", 8)
    steps = list(check_segment(disk, 0, INCARNATION))
    assert sum(step.bytes for step in steps) == expected.bytes
    assert [frame for step in steps for frame in step.frames] == expected.frames
    assert [one for step in steps for one in step.damaged] == expected.damaged
    assert all(step.bytes <= max(step_bytes, 400) for step in steps)


def test_a_block_that_the_disk_does_not_give_costs_the_records_in_it_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R6: EIO is damage, and what stands around it is read; but for what begins in the same block."""
    monkeypatch.setattr(segment_check, "SEARCH_BYTES", 32)
    disk = a_log(monkeypatch)
    for begin, covered, end in ends(disk):
        for offset in (begin, begin + RECORD_HEADER.size // 2, covered - 1):
            disk.fail_reads(segment_files.name_of(0), offset, offset + 1)
            found = whole(disk)
            (damage,) = found.damaged
            assert damage.offset == begin
            assert damage.end in {at for _, _, at in ends_of(monkeypatch)} and damage.end >= end
            assert "rror" in damage.why or str(errno.EIO) in damage.why
            assert found.records >= len(RECORDS) - 2
            disk.mend_reads()
    disk.fail_reads(segment_files.name_of(0), 0, 8)
    assert [one.offset for one in whole(disk).damaged] == [0]


def test_a_sealed_segment_that_lost_its_end_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: the next one says where it ended."""
    disk = a_log(monkeypatch, segment=600)
    assert len(segment_files.numbers(disk)) > 1
    name, end = segment_files.name_of(0), len(disk.contents()[segment_files.name_of(0)])
    last = max(begin for begin, _, through in ends_of(monkeypatch) if through <= end)
    disk.resize(name, last)
    assert [(one.offset, one.end) for one in whole(disk).damaged] == [(last, end)]
    disk.resize(name, end)
    assert [one.end for one in whole(disk).damaged] == [end]


def test_what_is_not_synced_yet_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = a_log(monkeypatch)
    _, (begin, *_), *_ = ends(disk)
    disk.overwrite(segment_files.name_of(0), begin + 10, b"half of what is being written")
    found = whole(disk, synced=begin)
    assert (found.records, found.damaged, found.bytes) == (1, [], begin)
    assert [(one.offset, one.end) for one in whole(disk).damaged] == [(begin, ends_of(monkeypatch)[1][2])]


def test_a_segment_of_another_bookie_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = a_log(monkeypatch)
    stranger = next(iter(check_segment(disk, 0, "00000000-0000-0000-0000-000000000001")))
    assert "another bookie" in stranger.damaged[0].why


def test_a_segment_that_is_gone_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = a_log(monkeypatch)
    with pytest.raises(FileNotFoundError):
        whole(disk, 9)
    steps = check_segment(disk, 0, INCARNATION)
    next(steps)
    disk.remove(segment_files.name_of(0))
    assert sum(step.records for step in steps) == len(RECORDS)  # its file is still open
