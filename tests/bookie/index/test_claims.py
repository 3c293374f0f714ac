"""A log that lacks what the index knows to have been on disk is refused, whether anybody replays that or not (R6)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bookie.disk.disk import Disk
from bookie.errors import DamagedLog, IndexUnusable
from bookie.index import claims as claims_module
from bookie.index.claims import check_before_rebuild, check_log, claims_of
from bookie.index.frame_locations import place_of_frame
from bookie.index.index import Index
from bookie.log import manifest
from bookie.log.format import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    SegmentHeader,
    encode_segment_header,
    place_of,
    position_of,
)
from bookie.log.record_reader import position_end
from tests.bookie.logs import INCARNATION, fence_of, found_in
from tests.bookie.offline.salvaging import END, FIRST, RECORD_BYTES, RECORDS, SECOND, THIRD, log_of, offset_of
from tests.bookie.simulated_disk import SimulatedDisk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A stopped log of three segments of three, three and two records."""
    return log_of(RECORDS, monkeypatch)


def index_of(path: Path, disk: Disk, checkpoint: int | None = None) -> Index:
    """An index that has everything before the checkpoint, which is the log's end unless another is given."""
    found = found_in(disk)
    if checkpoint is None:
        checkpoint = position_end(found[-1])
    path.mkdir()
    index = Index(path)
    for one in found:
        place = place_of_frame(one.record.columns, one.position, one.header.record_bytes)
        if place is not None and one.position < checkpoint:
            index.add(one.record.ledger_id, place)
    index.begin_checkpoint()
    index.commit_checkpoint(checkpoint, [])
    index.end_checkpoint()
    return index


@pytest.fixture
def index(tmp_path: Path, disk: SimulatedDisk) -> Index:
    return index_of(tmp_path / "index", disk)


def refusal(disk: SimulatedDisk, index: Index) -> tuple[str, int]:
    """Where the log is said to be damaged; nothing is changed."""
    operations = disk.operations
    with pytest.raises(DamagedLog) as refused:
        check_log(disk, index)
    assert disk.operations == operations
    return refused.value.file, refused.value.offset


def test_a_log_that_has_all_that_its_index_claims_is_taken(tmp_path: Path, disk: SimulatedDisk) -> None:
    ends = {position_end(one) for one in found_in(disk)}
    for n, checkpoint in enumerate([0, *ends, position_of(2, 0), position_of(2, SEGMENT_HEADER.size)]):
        check_log(disk, index_of(tmp_path / str(n), disk, checkpoint))


def test_the_index_claims_what_it_points_to(disk: SimulatedDisk, index: Index) -> None:
    claims = claims_of(index)
    assert place_of(claims.checkpoint) == (2, offset_of(8))
    assert claims.reach == {0: END, 1: END, 2: offset_of(8)}


@pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
def test_a_missing_segment_that_the_index_points_to_is_named_also_where_nobody_replays_it(
    disk: SimulatedDisk, index: Index, name: str
) -> None:
    disk.lose(name)
    assert refusal(disk, index) == (name, 0)


def test_a_missing_segment_that_was_dropped_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index may count something of it still: a crash came before it was told."""
    disk = log_of([*RECORDS, manifest.to_record([1, 2])], monkeypatch)
    index = index_of(tmp_path / "index", disk)
    disk.lose(FIRST)
    check_log(disk, index)
    disk.lose(SECOND)
    assert refusal(disk, index) == (SECOND, 0)


def test_a_missing_segment_that_the_index_does_not_need_is_left_to_replay(
    disk: SimulatedDisk, index: Index
) -> None:
    index.clear_usage([0])
    disk.lose(FIRST)
    check_log(disk, index)


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("left", [0, 1])
def test_a_log_that_ends_before_the_checkpoint_is_refused(
    disk: SimulatedDisk, index: Index, left: int, zeros: bool
) -> None:
    """Also where its end is zeros: replay begins behind them, and would find nothing amiss."""
    end = offset_of(6 + left)
    disk.resize(THIRD, end)
    if zeros:
        disk.resize(THIRD, END + 1000)
    assert refusal(disk, index) == (THIRD, end)


def test_damage_right_before_the_checkpoint_is_no_end_where_a_record_follows(
    tmp_path: Path, disk: SimulatedDisk
) -> None:
    """What stood there is known; so it is an I/O error for those who ask for it, and no reason not to start."""
    index = index_of(tmp_path / "index", disk, position_of(2, offset_of(7)))
    disk.overwrite(THIRD, offset_of(6) + 90, b"?")
    check_log(disk, index)


def test_damage_farther_before_the_checkpoint_is_no_reason_not_to_start(
    disk: SimulatedDisk, index: Index
) -> None:
    disk.overwrite(THIRD, offset_of(6) + 90, b"?")
    disk.overwrite(FIRST, offset_of(1) + 90, b"?")
    check_log(disk, index)


@pytest.mark.parametrize("offset", [0, SEGMENT_HEADER.size])
@pytest.mark.parametrize("size", [0, 30, 64])
def test_a_segment_with_the_checkpoint_in_it_is_not_taken_for_one_that_was_never_begun(
    tmp_path: Path, disk: SimulatedDisk, offset: int, size: int
) -> None:
    index = index_of(tmp_path / "index", disk, position_of(2, offset))
    disk.resize(THIRD, 0)
    disk.resize(THIRD, size)
    assert refusal(disk, index) == (THIRD, 0)


def test_a_checkpoint_inside_a_record_is_the_indexs_fault(tmp_path: Path, disk: SimulatedDisk) -> None:
    index = index_of(tmp_path / "index", disk, position_of(2, offset_of(7) + 16))
    with pytest.raises(IndexUnusable, match="rebuild-index"):
        check_log(disk, index)
    check_before_rebuild(disk, index)


@pytest.mark.parametrize("at", [2, 12, 90, RECORD_BYTES - 20])
def test_a_last_record_that_cannot_be_read_is_a_log_that_ends_too_early(
    disk: SimulatedDisk, index: Index, at: int
) -> None:
    """Whatever followed it may be gone as well."""
    disk.overwrite(THIRD, offset_of(7) + at, b"?")
    assert refusal(disk, index) == (THIRD, offset_of(7))


def test_no_more_is_read_than_the_last_record_before_the_checkpoint_may_take(
    monkeypatch: pytest.MonkeyPatch, disk: SimulatedDisk, index: Index
) -> None:
    """A start would else read a whole segment."""
    monkeypatch.setattr(claims_module, "BODY_BYTES_MAX", RECORD_BYTES - RECORD_HEADER.size)
    disk.fail_reads(THIRD, 0, offset_of(7))
    check_log(disk, index)


# --- before an index is given up


def test_an_index_is_not_given_up_before_what_it_alone_remembers_is_salvaged(
    disk: SimulatedDisk, index: Index
) -> None:
    """A segment was cut between two records, and the next one, which is new, does not say so."""
    disk.overwrite(SECOND, 0, encode_segment_header(SegmentHeader(1, INCARNATION)))
    disk.resize(FIRST, END - RECORD_BYTES)
    check_log(disk, index)
    with pytest.raises(DamagedLog) as refused:
        check_before_rebuild(disk, index)
    assert (refused.value.file, refused.value.offset) == (FIRST, END - RECORD_BYTES)


def test_an_index_is_not_given_up_where_the_checkpoints_segment_is_missing(
    disk: SimulatedDisk, index: Index
) -> None:
    disk.lose(THIRD)
    with pytest.raises(DamagedLog, match=THIRD):
        check_before_rebuild(disk, index)


def test_an_index_is_not_given_up_where_it_alone_remembers_a_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: it points to no frame, and the log it was made of is gone as a whole."""
    disk = log_of([fence_of(1)], monkeypatch)
    index = index_of(tmp_path / "index", disk)
    check_before_rebuild(disk, index)
    disk.wipe()
    with pytest.raises(DamagedLog, match="this segment is missing") as refused:
        check_before_rebuild(disk, index)
    assert refused.value.file == FIRST


def test_an_index_that_never_had_anything_claims_nothing(tmp_path: Path) -> None:
    check_before_rebuild(SimulatedDisk(Random(0)), Index(tmp_path))


def test_an_index_that_claims_more_than_the_log_itself_says_there_was_is_given_up(
    tmp_path: Path, disk: SimulatedDisk
) -> None:
    check_before_rebuild(disk, index_of(tmp_path / "index", disk, position_of(1, END + 800)))


def test_an_index_whose_rows_cannot_be_read_is_given_up(disk: SimulatedDisk, index: Index) -> None:
    with index._env.begin(write=True, db=index._places.db) as txn:
        txn.put(b"no key", b"no place")
    with pytest.raises(IndexUnusable, match="rebuild-index"):
        claims_of(index)
    disk.lose(FIRST)
    check_before_rebuild(disk, index)


def test_a_place_before_the_checkpoint_that_cannot_be_read_keeps_no_bookie_down(
    disk: SimulatedDisk, index: Index
) -> None:
    """Nor does rot there: the index knows what stood there, and readers are told of it."""
    disk.fail_reads(THIRD, SEGMENT_HEADER.size, SEGMENT_HEADER.size + 1)
    check_log(disk, index)
    end = disk.open(THIRD).size()
    disk.fail_reads(THIRD, end - 1, end)
    check_log(disk, index)


def test_a_log_that_cannot_be_opened_is_no_log_to_serve(
    disk: SimulatedDisk, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refused(name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(disk, "open", refused)
    with pytest.raises(PermissionError):
        check_log(disk, index)
