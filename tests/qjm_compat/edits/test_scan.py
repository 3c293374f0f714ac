"""A scan finds what can be read of a segment, and tells what cannot."""

from __future__ import annotations

import itertools
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import (
    HEADER_BYTES,
    INVALID_TXID,
    BrokenFrame,
    BrokenHeader,
    SegmentScan,
    encode_frame,
    encode_header,
    encode_op,
    iter_segment,
    scan,
    scan_segment,
    segment_bytes,
)
from qjm_compat.edits.ops.segments import StartLogSegment
from tests.qjm_compat.edits.made_frames import batch, damaged, frame, frames

COUNT = 9
WHOLE = segment_bytes(-63, frames(5, COUNT))


def txids_of(found: SegmentScan) -> tuple[int, int, int]:
    return found.first_txid, found.last_txid, found.ops


def test_all_ops_of_a_whole_segment_are_found() -> None:
    found = scan_segment(WHOLE)
    assert txids_of(found) == (5, 13, COUNT)
    assert (found.layout_version, found.valid_bytes) == (-63, len(WHOLE))
    assert found.is_contiguous and not found.is_empty and not found.is_header_corrupt
    assert found.damage == () and found.damaged_places == 0


def test_layouts_that_are_not_known_yet_are_scanned_all_the_same() -> None:
    assert txids_of(scan_segment(segment_bytes(-99, frames(5, COUNT)))) == (5, 13, COUNT)


@pytest.mark.parametrize("padding", [b"\xff", b"\xff" * 100_000, b"\xff\0\0\xff\0", b"\xff" + bytes(70_000)])
def test_padding_behind_a_terminator_is_the_end(padding: bytes) -> None:
    found = scan_segment(WHOLE + padding)
    assert txids_of(found) == (5, 13, COUNT)
    assert (found.valid_bytes, found.damage) == (len(WHOLE), ())


def test_padding_is_told_from_an_op_whose_last_bytes_look_like_it() -> None:
    looks_like_padding = next(
        one for txid in itertools.count(5) for one in [frame(txid)] if one[-1] in (0, 0xFF)
    )
    found = scan_segment(segment_bytes(-63, [looks_like_padding], padding=True))
    assert (found.ops, found.valid_bytes, found.damage) == (1, HEADER_BYTES + len(looks_like_padding), ())


@pytest.mark.parametrize("padding", [b"", b"\xff" * 50])
def test_a_segment_without_ops_is_empty_and_sound(padding: bytes) -> None:
    found = scan_segment(encode_header(-63) + padding)
    assert found.is_empty and not found.is_header_corrupt
    assert txids_of(found) == (INVALID_TXID, INVALID_TXID, 0)
    assert (found.valid_bytes, found.damage) == (HEADER_BYTES, ())


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff\xc1", b"\xff" * 4096, bytes(4096)])
def test_a_file_whose_header_was_never_written_is_corrupt_and_empty(data: bytes) -> None:
    found = scan_segment(data)
    assert found.is_header_corrupt and found.is_empty
    assert (found.layout_version, found.valid_bytes) == (None, 0)
    assert [(one.offset, one.end) for one in found.damage] == [(0, len(data))]


def test_a_log_from_before_ops_had_a_length_is_refused_and_not_called_corrupt() -> None:
    with pytest.raises(BrokenHeader, match="too old"):
        scan_segment(struct.pack(">ii", -55, 0) + batch(1, 3))


@given(st.integers(HEADER_BYTES, len(WHOLE) - 1))
def test_a_torn_tail_is_damage_behind_the_last_whole_op(size: int) -> None:
    found = scan_segment(WHOLE[:size])
    ends = list(itertools.accumulate(map(len, frames(5, COUNT)), initial=HEADER_BYTES))
    assert found.valid_bytes == max(end for end in ends if end <= size)
    assert found.ops == ends.index(found.valid_bytes)
    torn = [(found.valid_bytes, size)] if size > found.valid_bytes else []
    assert [(one.offset, one.end) for one in found.damage] == torn


@given(st.integers(1, len(frame(14)) - 1))
def test_a_torn_op_before_the_padding_is_damage_up_to_the_padding(size: int) -> None:
    torn = frame(14)[:size] + b"x"
    found = scan_segment(segment_bytes(-63, [*frames(5, COUNT), torn], padding=True))
    assert txids_of(found) == (5, 13, COUNT)
    assert [(one.offset, one.end) for one in found.damage] == [(len(WHOLE), len(WHOLE) + len(torn))]


@given(st.data())
def test_one_damaged_op_does_not_hide_those_behind_it(data: st.DataObject) -> None:
    parts = frames(5, COUNT)
    at = data.draw(st.integers(0, COUNT - 2))
    begin = HEADER_BYTES + sum(map(len, parts[:at]))
    offset = data.draw(st.integers(begin, begin + len(parts[at]) - 1))
    found = scan_segment(damaged(WHOLE, offset))
    assert found.last_txid == 13 and found.ops == COUNT - 1
    assert [(one.offset, one.end) for one in found.damage] == [(begin, begin + len(parts[at]))]
    assert found.is_contiguous == (at == 0)
    assert found.valid_bytes == len(WHOLE)


@given(st.binary(min_size=1, max_size=60), st.integers(0, COUNT - 1))
def test_garbage_between_ops_hides_none_of_them(garbage: bytes, at: int) -> None:
    parts = frames(5, COUNT)
    found = scan_segment(segment_bytes(-63, [*parts[:at], garbage, *parts[at:]]))
    assert txids_of(found) == (5, 13, COUNT)
    assert found.is_contiguous and len(found.damage) == 1
    begin = HEADER_BYTES + sum(map(len, parts[:at]))
    assert (found.damage[0].offset, found.damage[0].end) == (begin, begin + len(garbage))


def test_bytes_behind_a_terminator_that_are_no_padding_are_damage() -> None:
    found = scan_segment(WHOLE + b"\xff\xffx\xff")
    assert txids_of(found) == (5, 13, COUNT)
    assert [(one.offset, one.end) for one in found.damage] == [(len(WHOLE), len(WHOLE) + 3)]
    assert "terminator" in found.damage[0].reason
    assert txids_of(scan_segment(WHOLE + b"\xff\xff" + frame(14))) == (5, 14, COUNT + 1)


def test_zeros_are_no_terminator() -> None:
    found = scan_segment(WHOLE + bytes(30))
    assert txids_of(found) == (5, 13, COUNT)
    assert [(one.offset, one.end) for one in found.damage] == [(len(WHOLE), len(WHOLE) + 30)]


def test_gaps_and_repetitions_are_told_and_the_highest_transaction_is_the_last() -> None:
    found = scan_segment(segment_bytes(-63, [frame(5), frame(9), frame(7)]))
    assert txids_of(found) == (5, 9, 3)
    assert not found.is_contiguous and found.damage == ()
    assert not scan_segment(segment_bytes(-63, [frame(5), frame(5)])).is_contiguous
    assert not scan_segment(segment_bytes(-63, [frame(5), frame(6), frame(8)])).is_contiguous


@pytest.mark.parametrize("txid_max", [4, 5, 8, 12, 13, 99])
def test_a_scan_goes_no_further_than_it_is_asked_to(txid_max: int) -> None:
    found = scan_segment(WHOLE + b"damage", txid_max=txid_max)
    ops = min(max(txid_max - 4, 0), COUNT)
    assert found.ops == ops
    assert found.valid_bytes == HEADER_BYTES + len(batch(5, ops))
    assert found.last_txid == (4 + ops if ops else INVALID_TXID)
    assert bool(found.damage) == (txid_max >= 14)


def test_damage_is_told_up_to_a_bound_and_counted_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "DAMAGE_MAX", 3)
    found = scan_segment(encode_header(-63) + b"".join([b"x" + one for one in frames(5, COUNT)]))
    assert (found.ops, len(found.damage), found.damaged_places) == (COUNT, 3, COUNT)


def test_bytes_that_were_made_to_be_slow_are_given_up_and_not_read_for_ever() -> None:
    # Every fifth byte begins an op that claims most of the file: each claim is a checksum over it.
    hostile = encode_header(-63) + (b"\1" + struct.pack(">I", 4_000_000)) * 1_000_000 + frame(5)
    began = time.process_time()
    found = scan_segment(hostile)
    assert time.process_time() - began < 10
    assert found.is_empty and found.damage[-1].end == len(hostile)


def test_the_ops_before_damage_are_read_and_the_damage_is_an_error_with_its_place() -> None:
    ops = [StartLogSegment(txid=txid) for txid in (1, 2, 3)]
    whole = segment_bytes(-63, [encode_op(op, -63) for op in ops])
    assert list(iter_segment(whole)) == list(iter_segment(whole + b"\xff" * 20)) == ops
    reading = iter_segment(damaged(whole, 20 + HEADER_BYTES))
    assert next(reading) == ops[0]
    with pytest.raises(BrokenFrame, match=f"at offset {HEADER_BYTES + 17}: "):
        next(reading)
    torn = iter_segment(whole[:-1])
    assert [next(torn), next(torn)] == ops[:2]
    with pytest.raises(BrokenFrame, match="cut short"):
        next(torn)


def test_a_terminator_with_a_good_checksum_is_no_op() -> None:
    found = scan_segment(segment_bytes(-63, [frame(5), encode_frame(0xFF, 6, b""), frame(7)]))
    assert (found.ops, found.first_txid, found.last_txid, len(found.damage)) == (2, 5, 7, 1)
