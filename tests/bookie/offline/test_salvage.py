"""B2, R6: a damaged log is made one that starts again, and says what it has lost; nothing else in it changes."""

from __future__ import annotations

from random import Random

import pytest

from bookie.errors import DamagedLog, DataDirectoryError
from bookie.index.claims import Claims
from bookie.log import manifest, segment_files
from bookie.log.format import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    RecordKind,
    SegmentHeader,
    decode_segment_header,
    encode_record,
    encode_segment_header,
    position_of,
)
from bookie.log.record_reader import position_end
from bookie.offline import log_salvage as salvage_module
from bookie.offline.damage import MISSING, LogScan
from bookie.offline.log_salvage import find, mend
from tests.bookie.logs import INCARNATION, fence_of, found_in, record_of, records_in
from tests.bookie.offline.salvaging import (
    END,
    FIRST,
    LOST,
    PER_SEGMENT,
    RECORD_BYTES,
    RECORDS,
    SECOND,
    THIRD,
    checkpoint_at,
    log_of,
    nothing_more_to_do,
    offset_of,
    salvaged,
    salvaged_for_good,
    stretches_of,
)
from tests.bookie.simulated_disk import SimulatedDisk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A stopped log of three segments of three, three and two records, each a group of its own."""
    return log_of(RECORDS, monkeypatch)


# --- one kind of damage after the other


def test_a_log_that_is_whole_is_left_alone(disk: SimulatedDisk) -> None:
    assert nothing_more_to_do(disk)
    assert records_in(disk) == RECORDS


@pytest.mark.parametrize("index", [0, 1, 2, 4, 6])
def test_a_damaged_record_is_lost_and_nothing_else_is(disk: SimulatedDisk, index: int) -> None:
    """B2: in sealed segments and in the newest."""
    segment, offset = index // PER_SEGMENT, offset_of(index)
    disk.overwrite(segment_files.name_of(segment), offset + 90, b"?")
    before = disk.contents()[segment_files.name_of(segment)][offset : offset + RECORD_BYTES]
    aside = SimulatedDisk(Random(0))
    with pytest.raises(DamagedLog):
        records_in(disk)
    (done,) = salvaged_for_good(disk, aside=aside)
    assert (done.file, done.offset, done.bytes_lost) == (segment_files.name_of(segment), offset, RECORD_BYTES)
    assert aside.contents() == {done.copy: before.rstrip(b"\0")}
    assert done.copy == f"{segment_files.name_of(segment)}.{offset}"
    assert records_in(disk) == [*RECORDS[:index], LOST, *RECORDS[index + 1 :]]
    assert stretches_of(disk) == [(segment, offset, RECORD_BYTES)]


def test_the_last_record_of_a_sealed_segment_is_lost_even_where_nothing_says_how_far_it_went(
    disk: SimulatedDisk,
) -> None:
    """The next segment's header, which would say so, was made anew by a salvage that knew it not."""
    disk.overwrite(SECOND, 0, encode_segment_header(SegmentHeader(1, INCARNATION)))
    disk.overwrite(FIRST, offset_of(2) + 90, b"?")
    (done,) = salvaged_for_good(disk)
    assert (done.offset, done.bytes_lost) == (offset_of(2), RECORD_HEADER.size)
    assert records_in(disk) == [*RECORDS[:2], LOST, *RECORDS[3:]]


def test_a_torn_tail_is_left_to_the_start(disk: SimulatedDisk) -> None:
    disk.overwrite(THIRD, offset_of(7) + 90, b"?")
    assert nothing_more_to_do(disk)
    assert records_in(disk) == RECORDS[:7]


def test_damage_is_salvaged_and_the_torn_tail_behind_it_still_left_to_the_start(disk: SimulatedDisk) -> None:
    disk.overwrite(THIRD, offset_of(6) + 90, b"?")
    disk.resize(THIRD, offset_of(8) + 400)
    disk.overwrite(THIRD, offset_of(8) + 20, b"never acknowledged")
    (done,) = salvaged(disk)
    assert done.offset == offset_of(6)
    assert records_in(disk) == [*RECORDS[:6], LOST, RECORDS[7]]


def test_a_segment_that_a_crash_left_without_a_header_is_left_to_the_start(disk: SimulatedDisk) -> None:
    disk.create("00000003.log").write([b"bkldgseg"], 0)
    assert nothing_more_to_do(disk)
    assert records_in(disk) == RECORDS


@pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
def test_a_header_that_cannot_be_read_is_written_anew_and_its_records_stay(
    disk: SimulatedDisk, name: str
) -> None:
    number = segment_files.number_of(name)
    assert number is not None
    disk.overwrite(name, 3, b"?")
    (done,) = salvaged_for_good(disk)
    assert (done.file, done.offset, done.bytes_lost, done.copy) == (name, 0, 0, f"{name}.0")
    header = disk.contents()[name][: SEGMENT_HEADER.size]
    assert decode_segment_header(header) == SegmentHeader(number, INCARNATION)
    assert records_in(disk) == RECORDS


@pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
def test_damage_to_a_header_and_what_follows_it_loses_both(disk: SimulatedDisk, name: str) -> None:
    """In the newest segment, too: what follows is no torn tail, for what hit the one has hit the other."""
    number = segment_files.number_of(name)
    assert number is not None
    disk.overwrite(name, 3, bytes(SEGMENT_HEADER.size))
    salvaged_for_good(disk)
    first = number * PER_SEGMENT
    assert records_in(disk) == [*RECORDS[:first], LOST, *RECORDS[first + 1 :]]


def test_a_newest_segment_of_which_nothing_can_be_read_is_lost_and_never_taken_for_empty(
    disk: SimulatedDisk,
) -> None:
    disk.overwrite(THIRD, 0, bytes(offset_of(8)))
    salvaged_for_good(disk)
    assert records_in(disk) == [*RECORDS[:6], LOST]


@pytest.mark.parametrize("index", [0, 1])
def test_a_missing_segment_is_made_anew_and_says_that_it_is_lost(disk: SimulatedDisk, index: int) -> None:
    disk.lose(segment_files.name_of(index))
    (header, done) = salvaged_for_good(disk)
    assert (header.what, header.copy) == (f"its header was rewritten: {MISSING}", None)
    assert (done.offset, done.bytes_lost) == (SEGMENT_HEADER.size, END - SEGMENT_HEADER.size)
    first = index * PER_SEGMENT
    assert records_in(disk) == [*RECORDS[:first], LOST, *RECORDS[first + PER_SEGMENT :]]


def test_two_missing_segments_in_a_row_are_made_anew(disk: SimulatedDisk) -> None:
    disk.lose(FIRST)
    disk.lose(SECOND)
    salvaged_for_good(disk)
    assert records_in(disk) == [LOST, LOST, *RECORDS[6:]]


def test_a_segment_that_was_dropped_with_leave_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = log_of([*RECORDS, manifest.to_record([1, 2])], monkeypatch)
    disk.lose(FIRST)
    assert nothing_more_to_do(disk)
    disk.lose(SECOND)
    assert {done.file for done in salvaged(disk)} == {SECOND}


@pytest.mark.parametrize("size", [0, 30, 64, 100, END - RECORD_BYTES - 20, END - RECORD_BYTES, END - 16])
def test_a_segment_that_was_cut_is_filled_up_to_where_the_next_says_that_it_ended(
    disk: SimulatedDisk, size: int
) -> None:
    disk.resize(FIRST, size)
    salvaged_for_good(disk)
    left = max(0, (size - SEGMENT_HEADER.size) // RECORD_BYTES)
    assert records_in(disk) == [*RECORDS[:left], LOST, *RECORDS[PER_SEGMENT:]]
    assert stretches_of(disk) == [(0, offset_of(left), END - offset_of(left))]


def test_bytes_behind_a_segments_known_end_are_put_aside_and_nothing_is_lost(disk: SimulatedDisk) -> None:
    disk.resize(FIRST, END + 20)
    disk.overwrite(FIRST, END + 3, b"garbage")
    aside = SimulatedDisk(Random(0))
    (done,) = salvaged_for_good(disk, aside=aside)
    assert (done.offset, done.bytes_lost) == (END, 0)
    assert aside.contents() == {f"{FIRST}.{END}": b"\0\0\0garbage"}
    assert records_in(disk) == RECORDS


def test_a_stretch_longer_than_a_record_can_be_takes_several(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage_module, "LOST_BYTES_MAX", 2 * RECORD_BYTES - 8)
    disk.overwrite(FIRST, offset_of(1), bytes(2 * RECORD_BYTES))
    salvaged_for_good(disk)
    covered = stretches_of(disk)
    assert len(covered) == 2
    assert covered[0][1] == offset_of(1)
    assert sum(size for _, _, size in covered) == 2 * RECORD_BYTES
    assert [record for record in records_in(disk) if record.kind is not RecordKind.LOST] == [
        RECORDS[0],
        *RECORDS[3:],
    ]


def test_bytes_that_look_like_a_record_inside_a_damaged_one_are_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A payload may hold what would be a record where it stands; too near to the damage to be one it is not."""
    position = position_of(0, SEGMENT_HEADER.size + 72)
    inner = b"".join(encode_record(fence_of(9), position=position, synced=position))
    disk = log_of([record_of(1, [0], payload_bytes=200), *RECORDS], monkeypatch)
    disk.overwrite(FIRST, SEGMENT_HEADER.size, bytes(72) + inner)
    salvaged_for_good(disk)
    assert records_in(disk) == [LOST, *RECORDS]


def test_a_copy_is_never_written_over_another(disk: SimulatedDisk) -> None:
    aside = SimulatedDisk(Random(0))
    names: list[str | None] = []
    for _ in range(3):
        disk.overwrite(FIRST, offset_of(1) + 90, b"?")
        names += [done.copy for done in salvaged(disk, aside=aside)]
    name = f"{FIRST}.{offset_of(1)}"
    assert names == [name, f"{name}.1", f"{name}.2"]
    assert list(aside.durable_contents()) == names


def test_without_room_for_a_copy_nothing_is_changed(disk: SimulatedDisk) -> None:
    disk.overwrite(FIRST, offset_of(1) + 90, b"?")
    operations, aside = disk.operations, SimulatedDisk(Random(0), capacity_bytes=100)
    with pytest.raises(OSError, match="No space left"):
        salvaged(disk, aside=aside)
    assert (disk.operations, aside.names()) == (operations, [])
    aside.capacity_bytes = None
    (done,) = salvaged(disk, aside=aside)
    assert aside.names() == [done.copy]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (SegmentHeader(1, "00000000-66b0-4f3e-9d0c-2b1f6f0d8a11"), "written by another bookie"),
        (SegmentHeader(5, INCARNATION), "segment 5 under another name"),
    ],
)
def test_a_file_of_another_log_is_refused_and_nothing_is_changed(
    disk: SimulatedDisk, header: SegmentHeader, why: str
) -> None:
    disk.overwrite(FIRST, offset_of(1) + 90, b"?")
    disk.overwrite(SECOND, 0, encode_segment_header(header))
    operations = disk.operations
    with pytest.raises(DataDirectoryError, match=why):
        salvaged(disk)
    assert disk.operations == operations


def test_a_segment_that_a_later_program_wrote_is_refused(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("bookie.log.format.FORMAT_VERSION", 9)
        disk.overwrite(SECOND, 0, encode_segment_header(SegmentHeader(1, INCARNATION)))
    with pytest.raises(
        DataDirectoryError, match="segment 00000001 of the log was written by a newer version"
    ):
        salvaged(disk)


# --- what the index knows


@pytest.mark.parametrize("index", range(6))
def test_what_was_lost_before_the_checkpoint_leaves_nothing_unknown_behind_it(
    disk: SimulatedDisk, index: int
) -> None:
    claims = checkpoint_at(6)
    disk.overwrite(segment_files.name_of(index // PER_SEGMENT), offset_of(index) + 90, b"?")
    salvaged(disk, claims)
    assert records_in(disk, claims.checkpoint) == RECORDS[6:]
    assert records_in(disk) == [*RECORDS[:index], LOST, *RECORDS[index + 1 :]]


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("behind", [0, 40])
def test_a_newest_segment_that_ends_before_the_checkpoint_is_filled_and_says_that_its_tail_is_unknown(
    disk: SimulatedDisk, kept: int, behind: int
) -> None:
    """R6: whatever stood behind the checkpoint is missing as well, and replay must know that."""
    claims = checkpoint_at(8)
    end = offset_of(6 + kept)
    disk.resize(THIRD, end + behind)
    with pytest.raises(DamagedLog):
        records_in(disk, claims.checkpoint)
    salvaged_for_good(disk, claims)
    assert records_in(disk, claims.checkpoint) == [LOST]
    assert records_in(disk) == [*RECORDS[: 6 + kept], LOST, LOST]
    assert [(offset, size) for _, offset, size in stretches_of(disk)] == [
        (end, offset_of(8) - end),
        (offset_of(8), RECORD_HEADER.size),
    ]


def test_a_newest_segment_whose_end_became_zeros_before_the_checkpoint_is_lost_as_if_it_were_cut(
    disk: SimulatedDisk,
) -> None:
    """R6: replay itself would begin at the checkpoint and see nothing but prepared space."""
    claims = checkpoint_at(7)
    disk.overwrite(THIRD, offset_of(6), bytes(2 * RECORD_BYTES))
    salvaged_for_good(disk, claims)
    assert records_in(disk, claims.checkpoint) == [LOST]


@pytest.mark.parametrize("index", [4, 6, 7])
def test_a_missing_segment_with_the_checkpoint_in_it_is_lost_on_both_sides_of_it(
    disk: SimulatedDisk, index: int
) -> None:
    claims = checkpoint_at(index)
    disk.lose(segment_files.name_of(index // PER_SEGMENT))
    salvaged_for_good(disk, claims)
    assert records_in(disk, claims.checkpoint) == [LOST, *(RECORDS[6:] if index < 6 else [])]


def test_segments_missing_at_the_end_are_made_anew_up_to_the_checkpoint(disk: SimulatedDisk) -> None:
    claims = Claims(position_of(4, 0), {0: END, 1: END, 2: offset_of(8)})
    disk.resize(THIRD, offset_of(8) + 64)  # prepared space, as in a newest segment: now others follow
    salvaged_for_good(disk, claims)
    assert records_in(disk, claims.checkpoint) == [LOST]
    assert disk.names() == [segment_files.name_of(n) for n in range(5)]


def test_a_segment_without_a_header_is_lost_where_the_checkpoint_says_that_it_was_begun(
    disk: SimulatedDisk,
) -> None:
    """R6: a start would take it for one that was being begun, and remove it."""
    disk.create("00000003.log")
    claims = Claims(position_of(3, 0))
    salvaged(disk, claims)
    assert records_in(disk, claims.checkpoint) == [LOST]


def test_a_segment_that_was_cut_between_two_records_is_found_by_what_the_index_points_to(
    disk: SimulatedDisk,
) -> None:
    """The next segment's header would say so, but it is new; the index still remembers."""
    disk.overwrite(SECOND, 0, encode_segment_header(SegmentHeader(1, INCARNATION)))
    disk.resize(FIRST, offset_of(1))
    assert nothing_more_to_do(disk)
    (done,) = salvaged(disk, checkpoint_at(6))
    assert (done.offset, done.bytes_lost) == (offset_of(1), 2 * RECORD_BYTES)
    assert records_in(disk) == [RECORDS[0], LOST, *RECORDS[3:]]


@pytest.mark.parametrize(
    "checkpoint", [offset_of(6) + 40, offset_of(6) + 24, offset_of(8) + 16, offset_of(8) + 13]
)
def test_a_checkpoint_where_no_record_can_begin_is_called_wrong(disk: SimulatedDisk, checkpoint: int) -> None:
    claims = Claims(position_of(2, checkpoint))
    scan = LogScan(disk, INCARNATION, claims)
    for damaged in find(scan):
        mend(disk, SimulatedDisk(Random(0)), damaged, INCARNATION, claims)
    assert not scan.checkpoint_fits
    assert records_in(disk)[:8] == RECORDS


def test_a_checkpoint_behind_the_known_end_of_a_sealed_segment_is_called_wrong(disk: SimulatedDisk) -> None:
    scan = LogScan(disk, INCARNATION, Claims(position_of(0, END + RECORD_BYTES)))
    assert find(scan) == []
    assert not scan.checkpoint_fits


def test_an_interrupted_salvage_is_finished_even_if_the_index_is_lost_meanwhile(disk: SimulatedDisk) -> None:
    """R6: what stands at the checkpoint says that all before it was on disk."""
    disk.resize(THIRD, offset_of(6))
    disk.power_off_before(2)
    with pytest.raises(OSError, match="power is off"):
        salvaged(disk, checkpoint_at(7))
    disk.crash()
    salvaged(disk)
    assert records_in(disk) == [*RECORDS[:6], LOST, LOST]


def test_a_last_record_that_lost_only_its_padding_is_whole_and_gets_that_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replay refuses a file that ends before the checkpoint, be it by one byte."""
    record = record_of(1, [0], payload_bytes=21)
    disk = log_of([record], monkeypatch)
    end = position_end(found_in(disk)[0])
    disk.resize(FIRST, end - 1)
    assert nothing_more_to_do(disk)
    (done,) = salvaged(disk, Claims(end))
    assert (done.offset, done.bytes_lost) == (end, 0)
    assert records_in(disk, end) == []
    assert records_in(disk) == [record]
    assert nothing_more_to_do(disk, Claims(end))


def test_a_log_of_which_nearly_nothing_is_left_is_given_up(disk: SimulatedDisk) -> None:
    with pytest.raises(DataDirectoryError, match="more than 10000 segments of the log are missing"):
        salvaged(disk, Claims(position_of(2**31, 0)))
