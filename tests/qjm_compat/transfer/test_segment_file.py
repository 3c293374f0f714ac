"""What of a segment file is taken, and what makes it unusable."""

from __future__ import annotations

from pathlib import Path

import pytest

from qjm_compat.edits import TERMINATOR, check_batch, encode_frame, encode_header
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import parsed
from qjm_compat.transfer.files.segment_file import CheckedSegment, batches_of, checked_segment
from tests.qjm_compat.transfer.made_directories import LAYOUT, finalized, frame, frames, in_progress


def checked(path: Path) -> CheckedSegment | None:
    name = parsed(path.name)
    assert name is not None
    return checked_segment(path.parent, name)


def refusal(path: Path) -> str:
    with pytest.raises(TransferRefused) as refused:
        checked(path)
    assert path.name in str(refused.value)
    return str(refused.value)


def damaged(path: Path, offset: int) -> Path:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("padding", [b"", b"\xff", b"\xff" * 5000, b"\xff" + bytes(5000)])
def test_a_finalized_segment_is_its_ops_with_or_without_padding(tmp_path: Path, padding: bytes) -> None:
    path = finalized(tmp_path, 11, 20)
    path.write_bytes(path.read_bytes() + padding)
    found = checked(path)
    assert found is not None
    assert (found.first_txid, found.last_txid, found.layout_version) == (11, 20, LAYOUT)
    assert found.records == frames(11, 20)
    assert found.from_txid(15) == frames(15, 20)


@pytest.mark.parametrize("op", [0, 4, 9])
def test_a_finalized_segment_with_one_bit_wrong_is_refused_with_its_offset(tmp_path: Path, op: int) -> None:
    offset = 8 + op * len(frame(1))
    path = damaged(finalized(tmp_path, 1, 10), offset + 14)
    assert f"at offset {offset}" in refusal(path)


def test_a_finalized_segment_that_does_not_hold_what_its_name_says_is_refused(tmp_path: Path) -> None:
    assert "holds txids 1 to 10" in refusal(finalized(tmp_path, 1, 10).rename(tmp_path / "edits_1-11"))
    assert "holds txids 1 to 9" in refusal(finalized(tmp_path, 1, 9).rename(tmp_path / "edits_2-9"))


def test_txids_that_do_not_follow_one_another_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "edits_1-5"
    path.write_bytes(encode_header(LAYOUT) + frames(1, 2) + frames(4, 5))
    assert "are not consecutive" in refusal(path)


@pytest.mark.parametrize("content", [b"", encode_header(LAYOUT), b"\xff" * 1024])
def test_a_finalized_segment_without_edits_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edits_1-5"
    path.write_bytes(content)
    refusal(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        encode_header(LAYOUT),
        encode_header(LAYOUT) + b"\xff" * 1024,
        encode_header(LAYOUT) + frame(1)[:-1] + b"\xff" * 1024,
        bytes([TERMINATOR]) * (1024 * 1024),
        bytes(300_000),
    ],
    ids=["nothing", "header", "header and padding", "torn first op", "all 0xFF", "all zeros"],
)
def test_one_in_progress_without_a_whole_edit_holds_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "edits_inprogress_1"
    path.write_bytes(content)
    assert checked(path) is None


@pytest.mark.parametrize("torn", [b"", frame(31)[:-1], frame(31)[:3], b"\x01garbage"])
def test_one_in_progress_ends_with_its_last_whole_op(tmp_path: Path, torn: bytes) -> None:
    found = checked(in_progress(tmp_path, 21, 30, torn))
    assert found is not None
    assert (found.first_txid, found.last_txid, found.in_progress) == (21, 30, True)
    assert found.records == frames(21, 30)
    assert (found.torn is not None) == bool(torn)


def test_one_in_progress_with_edits_behind_damage_is_refused(tmp_path: Path) -> None:
    path = damaged(in_progress(tmp_path, 21, 30), 8 + 3 * len(frame(21)) + 14)
    assert "is damaged at offset" in refusal(path)


def test_one_in_progress_whose_header_is_damaged_is_refused(tmp_path: Path) -> None:
    path = in_progress(tmp_path, 21, 30)
    path.write_bytes(b"\x7f" + path.read_bytes()[1:])
    refusal(path)


@pytest.mark.parametrize(("spare_bytes", "txns"), [(0, 3), (1, 3), (-1, 2)])
def test_batches_have_all_ops_once_and_none_is_larger_than_asked_for(spare_bytes: int, txns: int) -> None:
    records = memoryview(frames(7, 1000))
    batches = list(batches_of(records, 7, 3 * len(frame(7)) + spare_bytes))
    assert b"".join(batch.records for batch in batches) == records
    assert [b.first_txid for b in batches] == [7, *(b.first_txid + b.num_txns for b in batches[:-1])]
    assert {batch.num_txns for batch in batches[:-1]} == {txns}
    for batch in batches:
        check_batch(batch.records, batch.first_txid, batch.num_txns)


def test_an_op_larger_than_a_batch_stands_alone() -> None:
    large = encode_frame(24, 2, bytes(5000))
    batches = list(batches_of(memoryview(frame(1) + large + frame(3)), 1, 1000))
    assert [(batch.first_txid, batch.num_txns) for batch in batches] == [(1, 1), (2, 1), (3, 1)]
