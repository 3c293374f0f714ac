"""Validates and slices batches of ops as flushed by a writer: frames of consecutive txids, without a header."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .errors import BrokenFrame
from .op_frames import Buffer, follow, frame_at

OPS_TOGETHER_MIN = 200
"""The minimum number of ops to check in bulk. Fewer ops are checked faster one by one."""

OPS_TOGETHER_MAX = 10_000
"""The maximum number of ops to check in bulk at once. Bounds the memory needed in addition to the ops themselves."""


def check_batch(records: Buffer, first_txid: int, num_txns: int) -> None:
    """Raises BrokenFrame unless `records` consists of exactly the ops first_txid … first_txid + num_txns - 1.

    Each op must be complete, undamaged and in order, and nothing may follow the last one.
    """
    view = memoryview(records)
    end = _walk(view, 0, first_txid, first_txid + num_txns)
    if end != len(view):
        raise BrokenFrame(end, f"{len(view) - end} bytes follow the {num_txns} announced ops")


def slice_batch(records: Buffer, first_txid: int, last_txid: int) -> memoryview:
    """Returns the ops first_txid … last_txid of a batch, without copying them.

    Checks all ops up to last_txid like `check_batch`, but not those after it. Raises BrokenFrame if there is an
    unexpected op, or if `records` lacks one of the requested ops.
    """
    view = memoryview(records)
    if first_txid > last_txid:
        return view[:0]
    _, txid, _ = frame_at(view, 0)
    begin = _walk(view, 0, txid, first_txid)
    return view[begin : _walk(view, begin, first_txid, last_txid + 1)]


def frame_offsets(records: Buffer) -> list[int]:
    """Returns the offset of each op. Raises BrokenFrame unless all are complete and undamaged. Does not check txids."""
    view = memoryview(records)
    offsets, offset = [], 0
    while offset < len(view):
        offsets.append(offset)
        _, _, offset = frame_at(view, offset)
    return offsets


def _walk(view: memoryview, offset: int, txid: int, txid_end: int) -> int:
    """Returns the end offset of the ops txid … txid_end - 1, which begin at `offset`."""
    while txid_end - txid >= OPS_TOGETHER_MIN and (together := _checked_together()):
        count = min(txid_end - txid, OPS_TOGETHER_MAX)
        if (end := together(view, offset, txid, count)) is None:
            break  # the ops are checked one by one below, to find the wrong one
        offset, txid = end, txid + count
    while txid < txid_end:
        offset, txid = follow(view, offset, txid, txid_end)
        if txid < txid_end:
            offset, txid = _one(view, offset, txid), txid + 1
    return offset


def _one(view: memoryview, offset: int, txid: int) -> int:
    if offset == len(view):
        raise BrokenFrame(offset, f"transaction {txid} was expected, but the ops end here")
    _, found, end = frame_at(view, offset)
    if found != txid:
        raise BrokenFrame(offset, f"transaction {txid} was expected, but {found} was found here")
    return end


@cache
def _checked_together() -> Callable[[memoryview, int, int, int], int | None] | None:
    try:
        from .crc_batch import end_of_good  # imports NumPy, so only large batches wait for the import
    except ImportError:  # the codec works without NumPy
        return None
    return end_of_good
