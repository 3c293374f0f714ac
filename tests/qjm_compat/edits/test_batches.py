"""A batch is believed only if it is exactly the transactions that were announced."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import (
    BrokenFrame,
    batches,
    check_batch,
    crc_batch,
    encode_frame,
    frame_offsets,
    slice_batch,
)
from qjm_compat.edits.crc_batch import end_of_good
from tests.qjm_compat.edits.made_frames import batch, damaged, frame, frames

COUNT = 9
first_txids = st.sampled_from([1, 1000, (1 << 63) - COUNT])


@pytest.fixture(
    params=[(COUNT + 1, 1), (1, 10_000), (1, 4)],
    ids=["one by one", "together", "four at a time"],
    autouse=True,
    scope="module",
)
def _how(request: pytest.FixtureRequest) -> Iterator[None]:
    """However many ops are checked together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "OPS_TOGETHER_MIN", request.param[0])
        patch.setattr(batches, "OPS_TOGETHER_MAX", request.param[1])
        yield


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_whole_frames_of_the_announced_transactions_pass(kind: Callable[[bytes], bytes]) -> None:
    for count in range(COUNT):
        check_batch(kind(batch(5, count)), 5, count)


@given(st.data())
def test_no_bit_of_a_batch_can_be_another(data: st.DataObject) -> None:
    whole = batch(5, COUNT)
    offset = data.draw(st.integers(0, len(whole) - 1))
    begins = frame_offsets(whole)
    with pytest.raises(BrokenFrame) as caught:
        check_batch(damaged(whole, offset), 5, COUNT)
    assert caught.value.offset == max(begin for begin in begins if begin <= offset)


@given(st.integers(0, COUNT), st.integers(1, COUNT), first_txids)
def test_what_is_checked_together_ends_where_its_ops_do(begin: int, count: int, first_txid: int) -> None:
    parts = frames(first_txid, COUNT)
    start, end = (sum(map(len, parts[:at])) for at in (begin, begin + count))
    found = end_of_good(memoryview(b"".join(parts)), start, first_txid + begin, count)
    assert found == (end if begin + count <= COUNT else None)


def test_an_op_that_is_larger_than_any_is_not_good(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = max(map(len, frames(1, COUNT)))
    for size_max, end in ((largest, len(batch(1, COUNT))), (largest - 1, None)):
        monkeypatch.setattr(crc_batch, "OP_BYTES_MAX", size_max)
        assert end_of_good(memoryview(batch(1, COUNT)), 0, 1, COUNT) == end


@given(st.integers(0, COUNT - 1), first_txids)
def test_a_transaction_that_is_not_the_next_is_refused_where_it_stands(at: int, first_txid: int) -> None:
    parts = frames(first_txid, COUNT)
    parts[at] = frame(77)
    with pytest.raises(
        BrokenFrame, match=f"transaction {first_txid + at} was expected, but 77 was found here"
    ) as caught:
        check_batch(b"".join(parts), first_txid, COUNT)
    assert caught.value.offset == sum(map(len, parts[:at]))


def test_transactions_out_of_order_or_twice_are_refused() -> None:
    one, two, three = frames(1, 3)
    for wrong in (two + one + three, one + three + two, one + one + two, one + two + two):
        with pytest.raises(BrokenFrame):
            check_batch(wrong, 1, 3)


def test_fewer_ops_than_announced_are_refused_at_the_end() -> None:
    whole = batch(5, 3)
    with pytest.raises(BrokenFrame, match="transaction 8 was expected, but the ops end here") as caught:
        check_batch(whole, 5, 4)
    assert caught.value.offset == len(whole)
    with pytest.raises(BrokenFrame, match="the ops end here"):
        check_batch(b"", 5, 1 << 40)


def test_anything_behind_the_last_op_is_refused() -> None:
    whole = batch(5, 3)
    for behind in (b"\0", b"\xff" * 40, frame(8)):
        with pytest.raises(BrokenFrame, match=f"{len(behind)} bytes follow the 3 announced ops") as caught:
            check_batch(whole + behind, 5, 3)
        assert caught.value.offset == len(whole)
    with pytest.raises(BrokenFrame, match="1 bytes follow the 0 announced ops"):
        check_batch(b"\0", 5, 0)


def _too_short() -> tuple[int, bytes]:
    """A frame with a good checksum and the next transaction, but a length that ends within its txid."""
    for txid in range(2, 1 << 16):
        start = struct.pack(">BI", 3, 11) + struct.pack(">q", txid)[:7]
        whole = start + struct.pack(">I", crc32(start))
        if whole[12] == txid & 0xFF:
            return txid, whole
    raise AssertionError("one of 256 is like that")


def test_a_frame_that_ends_within_its_transaction_is_refused_even_with_a_good_checksum() -> None:
    txid, short = _too_short()
    before, after = frame(txid - 1), frame(txid + 1)
    with pytest.raises(BrokenFrame, match="claims a length of 11") as caught:
        check_batch(before + short + after, txid - 1, 3)
    assert caught.value.offset == len(before)


def test_a_terminator_in_a_batch_is_refused_even_as_a_whole_frame() -> None:
    first, last = frame(5), frame(7)
    with pytest.raises(BrokenFrame, match="terminator") as caught:
        check_batch(first + encode_frame(0xFF, 6, b"") + last, 5, 3)
    assert caught.value.offset == len(first)


@given(st.integers(0, COUNT), st.integers(0, COUNT), first_txids)
def test_a_slice_is_the_frames_of_its_transactions_and_no_other(
    begin: int, count: int, first_txid: int
) -> None:
    parts = frames(first_txid, COUNT)
    end = min(begin + count, COUNT)
    sliced = slice_batch(b"".join(parts), first_txid + begin, first_txid + end - 1)
    assert bytes(sliced) == b"".join(parts[begin:end])


def test_a_slice_of_no_transactions_is_empty_also_where_there_are_none() -> None:
    for records in (b"", batch(5, 3)):
        assert bytes(slice_batch(records, 6, 5)) == b""


def test_a_slice_does_not_look_at_what_is_behind_it() -> None:
    assert bytes(slice_batch(batch(5, 3) + b"\xff" * 30, 6, 7)) == batch(5, 3)[len(frame(5, b"\x05" * 5)) :]


@pytest.mark.parametrize(("first", "last"), [(4, 6), (6, 8), (8, 9)])
def test_a_slice_of_transactions_that_are_not_there_is_refused(first: int, last: int) -> None:
    with pytest.raises(BrokenFrame):
        slice_batch(batch(5, 3), first, last)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_slice_of_damaged_or_missing_frames_is_refused(at: int) -> None:
    parts = frames(5, 3)
    broken = [*parts[:at], damaged(parts[at], 6), *parts[at + 1 :]]
    with pytest.raises(BrokenFrame):
        slice_batch(b"".join(broken), 6, 7)
    if at < 2:
        with pytest.raises(BrokenFrame):
            slice_batch(b"".join([*parts[:at], *parts[at + 1 :]]), 5, 7)


def test_offsets_are_where_the_frames_begin_whatever_their_transactions() -> None:
    parts = [frame(9), frame(3, b""), frame(3)]
    assert frame_offsets(b"".join(parts)) == [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    assert frame_offsets(b"") == []
    for wrong in (b"\0", damaged(parts[0], 20), parts[0][:-1]):
        with pytest.raises(BrokenFrame) as caught:
            frame_offsets(parts[1] + wrong)
        assert caught.value.offset == len(parts[1])
