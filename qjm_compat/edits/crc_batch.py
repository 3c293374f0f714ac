"""Verifies a batch of ops in one pass. Apart from reading the length of each op, the work is done once per batch. Pure.

A CRC is a register that is advanced over bytes. After the body of an op, it equals the op's checksum; at the start of
the next op it is all ones. In a copy of the batch, each checksum is therefore replaced by the four bytes that advance
the register from that checksum to all ones. If all checksums are right, one pass over the copy ends with all ones.

A single wrong op always changes the result, because advancing the register loses no information. Several wrong ops
could cancel each other out with a probability of 1 in 2**32, which is about the probability that one damaged op has the
right CRC.
"""

from __future__ import annotations

import struct
from itertools import repeat
from zlib import crc32

import numpy as np
import numpy.typing as npt

from .op_frames import OP_BYTES_MAX, OP_BYTES_MIN, TERMINATOR

Places = npt.NDArray[np.intp]

_LENGTH = struct.Struct(">xI")
_NOT_IN_LENGTH = 5
"""The number of bytes of an op that its length field does not count: the opcode and the length itself."""

_TXID_AT, _TXID_BYTES = 5, 8
_CRC_BYTES = 4

_TO_ONES = 0x6DD90A9D
"""XORed with a checksum, this yields the four bytes (little-endian) that advance the register from that checksum to all
ones."""

_CRC_OF_ONES = 0
"""The value that `crc32` returns for a register of all ones: the register's complement."""


def end_of_good(records: memoryview, offset: int, first_txid: int, count: int) -> int | None:
    """Returns the end offset of `count` ops (at least one) that begin at `offset` with the transaction `first_txid`.

    Returns None unless every op is complete, undamaged and next in sequence.
    """
    ends: list[int] = []
    end, length_at = offset, _LENGTH.unpack_from
    try:
        for _ in repeat(None, count):
            end += length_at(records, end)[0] + _NOT_IN_LENGTH
            ends.append(end)
    except struct.error:  # the op would begin after the last byte
        return None
    if end > len(records):
        return None
    ops, stops = bytearray(records[offset:end]), np.array(ends, np.intp) - offset
    return end if _are_ops(ops, stops, first_txid) and _are_undamaged(ops, stops) else None


def _are_ops(ops: bytearray, stops: Places, first_txid: int) -> bool:
    starts = np.concatenate((np.zeros(1, np.intp), stops[:-1]))
    sizes = stops - starts
    if sizes.min() < OP_BYTES_MIN or sizes.max() > OP_BYTES_MAX:
        return False
    if (np.frombuffer(ops, np.uint8)[starts] == TERMINATOR).any():
        return False
    txids = np.ndarray(len(ops) - _TXID_BYTES + 1, ">i8", ops, strides=(1,))[starts + _TXID_AT]
    ends = int(txids[0]), int(txids[-1])
    return ends == (first_txid, first_txid + len(starts) - 1) and bool((np.diff(txids) == 1).all())


def _are_undamaged(ops: bytearray, stops: Places) -> bool:
    """Returns whether each checksum is right. Modifies `ops`."""
    # The words overlap: one starts at each byte.
    words, places = len(ops) - _CRC_BYTES + 1, stops - _CRC_BYTES
    checksums = np.ndarray(words, ">u4", ops, strides=(1,))[places]
    np.ndarray(words, "<u4", ops, strides=(1,))[places] = checksums ^ _TO_ONES
    return crc32(ops) == _CRC_OF_ONES
