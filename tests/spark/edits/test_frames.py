"""Slices of frames: all of them, in order, and never more than the bound at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.edits import BrokenFrame, EditLogError, encode_frame
from qjm_compat.edits.ops import namespace
from spark.edits.frames import slices
from tests.qjm_compat.transfer.made_directories import LAYOUT, frame, frames


@given(st.lists(st.integers(0, 300), max_size=30), st.integers(1, 500))
def test_slices_are_all_the_frames_in_order_within_the_bound(sizes: list[int], slice_bytes: int) -> None:
    made = [encode_frame(9, txid, b"x" * size) for txid, size in enumerate(sizes, 1)]
    found = list(slices(b"".join(made), slice_bytes))
    assert b"".join(bytes(one.records) for one in found) == b"".join(made)
    assert [txid for one in found for txid in one.txids] == list(range(1, len(sizes) + 1))
    for one, following in zip(found, [*found[1:], None], strict=False):
        assert len(one.records) <= slice_bytes or len(one.txids) == 1
        bodies = [bytes(one.records[a:b]) for a, b in zip(one.starts, [*one.starts[1:], None], strict=True)]
        assert bodies == [made[txid - 1] for txid in one.txids]
        if following is not None:
            first = made[following.txids[0] - 1]
            assert len(one.records) + len(first) > slice_bytes, "a slice is as full as can be"


def test_ops_are_decoded_and_the_one_that_cannot_be_is_named() -> None:
    (one,) = slices(frames(1, 2) + encode_frame(127, 3, b"") + frame(4))
    with pytest.raises(EditLogError, match=r"^txid 3, of op code 127, cannot be decoded .*from_txid"):
        one.decoded(LAYOUT)
    (good,) = slices(frames(1, 2))
    assert [op.txid for op in good.decoded(LAYOUT)] == [1, 2]


def test_a_body_that_does_not_fit_its_op_is_named() -> None:
    (one,) = slices(frame(1) + encode_frame(namespace.Delete.opcode, 2, b"\0"))
    with pytest.raises(EditLogError, match=r"^txid 2, of op code 2, cannot be decoded \(OP_DELETE 2"):
        one.decoded(LAYOUT)


def test_a_damaged_frame_is_an_error() -> None:
    records = bytearray(frames(1, 4))
    records[-1] ^= 1
    with pytest.raises(BrokenFrame, match="checksum mismatch in the op"):
        list(slices(records))
