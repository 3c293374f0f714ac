"""Verifies a batch of ops in a few passes over it: work per batch, but for small ones a look at each op's length. Pure.

A CRC is a register that is moved over bytes. Behind the body of an op it is what the op's checksum says, and where the
next op begins it is all ones. In a copy of the batch each checksum is replaced by the four bytes that move the register
from the one to the other, if the checksum is right. So one pass over the copy ends with ones.

One wrong op always changes the end, because moving on loses nothing; several could cancel out once in 2**32, about as
often as one damaged op has the right CRC.
"""

from __future__ import annotations

import struct
from itertools import repeat
from zlib import crc32

import numpy as np
import numpy.typing as npt

from .frames import OP_BYTES_MAX, OP_BYTES_MIN, TERMINATOR

Places = npt.NDArray[np.intp]

Bytes = npt.NDArray[np.uint8]

SEARCHED_MIN = 500
"""From this many ops on it takes less time to look for their txids than to go from one op to the next."""

SEARCHED_OP_BYTES = 512
"""For each op, the bytes that are looked at: with larger ops there is nothing to gain."""

SEARCHED_HITS_MAX = 4
"""For each op, the places that are looked at closer."""

_LENGTH_AT, _LENGTH = 1, struct.Struct(">xI")
_NOT_IN_LENGTH = 5
"""Bytes of an op that its length does not count: opcode and length."""

_TXID_AT = 5

_TXID_MAX = 2**63 - 1

_CRC_BYTES = 4

_TO_ONES = 0x6DD90A9D
"""A checksum changed by this (exclusive or) is the four bytes, little-endian, that bring its register to ones."""

_CRC_OF_ONES = 0
"""What `crc32` tells of a register of ones: its complement."""


def end_of_good(records: memoryview, offset: int, first_txid: int, count: int) -> int | None:
    """Where the ops of `count` transactions end, the first of which begins at `offset`, one op at least.

    None unless each is whole, undamaged, and of the next transaction.
    """
    view = records[offset:]
    stops = _stops_by_txids(view, first_txid, count) if count >= SEARCHED_MIN else None
    if stops is None:
        stops = _stops_by_lengths(view, count)
    if stops is None:
        return None
    ops = bytearray(view[: stops[-1]])
    good = _are_ops(ops, stops, first_txid) and _are_undamaged(ops, stops)
    return offset + len(ops) if good else None


def _stops_by_txids(view: memoryview, first_txid: int, count: int) -> Places | None:
    """Where each op ends, found by their txids; None where that takes longer than going from op to op: their first byte
    that is not 0 is not the same, or is frequent, or the ops are large. None, too, where not each op ends where the
    next begins, as by their lengths.
    """
    if not 0 < first_txid <= _TXID_MAX:
        return None
    lower = (first_txid.bit_length() - 1) // 8  # bytes behind the first one that is not 0
    same = first_txid >> 8 * lower
    if (first_txid + count - 1) >> 8 * lower != same:
        return None
    data, same_at = np.frombuffer(view[: count * SEARCHED_OP_BYTES], np.uint8), _TXID_AT + 7 - lower
    is_same = data[same_at : len(data) - lower] == same
    if np.count_nonzero(is_same) > count * SEARCHED_HITS_MAX:
        return None
    found = np.flatnonzero(is_same)
    numbers = _words(data, ">i8")[found + _TXID_AT] - first_txid
    starts = found[(numbers >= 0) & (numbers < count)]
    if len(starts) != count or starts[0] != 0:
        return None
    stops: Places = starts + _words(data, ">u4")[starts + _LENGTH_AT] + _NOT_IN_LENGTH
    return stops if stops[-1] <= len(view) and (stops[:-1] == starts[1:]).all() else None


def _stops_by_lengths(view: memoryview, count: int) -> Places | None:
    """Likewise, from one op to the next."""
    stops: list[int] = []
    stop, length_at = 0, _LENGTH.unpack_from
    try:
        for _ in repeat(None, count):
            stop += length_at(view, stop)[0] + _NOT_IN_LENGTH
            stops.append(stop)
    except struct.error:  # it would begin behind the last byte
        return None
    return np.array(stops, np.intp) if stop <= len(view) else None


def _are_ops(ops: bytearray, stops: Places, first_txid: int) -> bool:
    starts = np.concatenate((np.zeros(1, np.intp), stops[:-1]))
    sizes = stops - starts
    if sizes.min() < OP_BYTES_MIN or sizes.max() > OP_BYTES_MAX:
        return False
    if (np.frombuffer(ops, np.uint8)[starts] == TERMINATOR).any():
        return False
    txids = _words(ops, ">i8")[starts + _TXID_AT]
    ends = int(txids[0]), int(txids[-1])
    return ends == (first_txid, first_txid + len(starts) - 1) and bool((np.diff(txids) == 1).all())


def _are_undamaged(ops: bytearray, stops: Places) -> bool:
    """Whether each checksum is right. Takes the ops for the copy that it changes."""
    places = stops - _CRC_BYTES
    _words(ops, "<u4")[places] = _words(ops, ">u4")[places] ^ _TO_ONES
    return crc32(ops) == _CRC_OF_ONES


def _words(data: bytearray | Bytes, kind: str) -> npt.NDArray[np.integer]:
    """The word that begins at each byte."""
    count = max(0, len(data) - np.dtype(kind).itemsize + 1)
    return np.ndarray(count, kind, data, strides=(1,))
