"""Which files of a `current/` are segments, and in which order."""

from __future__ import annotations

import pytest

from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import LeftOut, SegmentName, finalized_name, in_progress_name, listing


def test_names_are_those_that_hadoop_gives() -> None:
    assert finalized_name(1, 9022) == "edits_0000000000000000001-0000000000000009022"
    assert in_progress_name(12830) == "edits_inprogress_0000000000000012830"


def test_segments_come_in_the_order_of_their_txids_whatever_the_width_of_their_names() -> None:
    found = listing(["edits_inprogress_21", "edits_11-20", "VERSION", "fsimage_20", "edits_0001-0010"])
    assert found.left_out == ()
    assert found.segments == (
        SegmentName("edits_0001-0010", 1, 10),
        SegmentName("edits_11-20", 11, 20),
        SegmentName("edits_inprogress_21", 21, None),
    )


@pytest.mark.parametrize(
    "file",
    [
        "edits_inprogress_21.empty",
        "edits_inprogress_21.corrupt",
        "edits_11-20.trash",
        "edits_inprogress_21.stale",
        "edits_inprogress_21.epoch=7",
        "edits_11-20.tmp",
    ],
)
def test_what_was_moved_aside_is_left_out_by_its_name(file: str) -> None:
    assert listing([file, "edits_1-10"]) == listing(["edits_1-10"]).__class__(
        (SegmentName("edits_1-10", 1, 10),), (LeftOut(file, "moved aside"),)
    )


def test_a_finalized_segment_overrules_what_is_in_progress_inside_of_it() -> None:
    found = listing(["edits_1-10", "edits_inprogress_1", "edits_inprogress_5"])
    assert [segment.file for segment in found.segments] == ["edits_1-10"]
    assert {one.file for one in found.left_out} == {"edits_inprogress_1", "edits_inprogress_5"}
    assert {one.why for one in found.left_out} == {"edits_1-10 has its edits"}


@pytest.mark.parametrize("other", ["edits_5-12", "edits_1-12", "edits_3-4", "edits_01-10"])
def test_finalized_segments_that_overlap_are_refused(other: str) -> None:
    with pytest.raises(TransferRefused, match="overlap"):
        listing(["edits_1-10", other])


@pytest.mark.parametrize("file", ["edits_0-5", "edits_5-4"])
def test_a_name_with_impossible_txids_is_refused(file: str) -> None:
    with pytest.raises(TransferRefused, match=file):
        listing([file])
