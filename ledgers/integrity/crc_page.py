"""Verifies the CRC32C digests of a page in a single pass: the cost is per page, not per entry. Pure.

A CRC is a register that is advanced over the bytes. The digest of an entry is the register after its payload, if the
register begins with a start value that depends on the ledger and the entry's id. Changing the register between two
bytes has the same effect as changing the next four bytes by the same value (exclusive or). Therefore, at the end of
each entry, the next four bytes are changed by the difference between the entry's digest and the start value of the
following entry: if the digest is correct, the register continues with that start value. A single pass that begins with
the start value of the first entry must then arrive at the digest of the last.

One wrong entry always changes the result, because advancing the register loses no information. Several wrong entries
could cancel out with a probability of about one in 2**31, about as often as one wrong entry has the right CRC. This
estimate requires bytes between the wrong entries: an empty entry does not advance the register, so entire runs of wrong
digests would cancel out. This module therefore does not check pages that contain an empty entry.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from bookie.wire import Columns
from bookie.wire.columnar_entries import ID_BYTES

Registers = npt.NDArray[np.uint32]

REGISTER_BYTES = 4


def can_check(columns: Columns) -> bool:
    """Returns whether `all_good` accepts these entries: there is at least one, and none is empty."""
    return bool(np.frombuffer(columns.lengths, "<u4").min() > 0)


def all_good(columns: Columns, seed: int) -> bool:
    """Returns whether every digest is the CRC32C over `seed`, the entry's id in eight bytes, and its payload."""
    digests, starts = np.frombuffer(columns.digests, "<u4"), _starts(columns.entry_ids, seed)
    linked = _linked(columns, digests[:-1] ^ starts[1:])
    behind = crc32c(bytes(REGISTER_BYTES), int(digests[-1]))
    return bool(crc32c(linked.data, int(starts[0])) == behind)


def _linked(columns: Columns, changes: Registers) -> npt.NDArray[np.uint8]:
    """Returns the payload with a change applied to the bytes after each entry except the last.

    Zeros are appended, because a change may extend beyond the end of the payload.
    """
    payload = np.frombuffer(columns.payload, np.uint8)
    linked = np.empty(len(payload) + REGISTER_BYTES, np.uint8)
    linked[:-REGISTER_BYTES] = payload
    linked[-REGISTER_BYTES:] = 0
    lengths = np.frombuffer(columns.lengths, "<u4")
    ends = np.cumsum(lengths[:-1], dtype=np.intp)
    words = np.ndarray(len(payload) + 1, "<u4", linked, strides=(1,))  # one word starting at each byte
    if lengths.min() >= REGISTER_BYTES:
        words[ends] ^= changes
    else:
        np.bitwise_xor.at(words, ends, changes)  # one change at a time, because some words overlap
    return linked


def _starts(entry_ids: bytes, seed: int) -> Registers:
    """Returns the CRC over the seed and each id: the contribution of the seed, combined with that of each byte of the
    id that may be nonzero."""
    ids = np.frombuffer(entry_ids, np.uint8).reshape(-1, ID_BYTES)
    starts = np.full(len(ids), crc32c(bytes(ID_BYTES), seed), np.uint32)
    largest = int(np.frombuffer(entry_ids, "<u8").max())
    for place in range((largest.bit_length() + 7) // 8):
        starts ^= _id_tables()[place].take(ids[:, place])
    return starts


@cache
def _id_tables() -> Registers:
    """Returns the contribution of each byte of an id to the register, by its position and its value."""
    zeros = crc32c(bytes(ID_BYTES))
    return np.array(
        [
            [
                crc32c(bytes(place) + bytes([value]) + bytes(ID_BYTES - 1 - place)) ^ zeros
                for value in range(256)
            ]
            for place in range(ID_BYTES)
        ],
        np.uint32,
    )
