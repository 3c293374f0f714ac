"""Verifies the CRC32C digests of a whole page, a block of entries at a time: work per batch, not per entry. Pure.

A CRC is a register that is moved over the bytes, linearly: its value at the end of a block is the sum (exclusive
or) of each part's contribution, moved on by as many bytes as came after that part. The digest of an entry is such a
register, started from the ledger and the entry's id. So the digests of a block can be summed
into the one register that a single pass over the block's payload must arrive at:

    start of the first entry, passed over the payload
        = sum over the entries of (digest, with the start of the entry behind it) moved on to the block's end

One wrong entry always changes the sum, because moving on loses nothing; several could cancel out once in 2**31 or so,
about as often as one wrong entry has the right CRC. That takes bytes between them: where entries are empty nothing is
moved on, and whole runs of wrong digests cancel out, so this module does not check pages with an empty entry. The
starts and the moving come from tables; only the pass over the payload is left, one call for each block.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from bookie.wire import Columns
from bookie.wire.columns import ID_BYTES

Registers = npt.NDArray[np.uint32]

BLOCK_ENTRIES = 16
"""Entries summed at a time: more save calls, fewer locate damage more exactly."""

ENTRY_BYTES_MAX = 4096
"""Larger entries gain nothing: their own bytes cost more than a call. Also bounds how far a register is moved."""

_STEPS = 256
_MOVED_BYTES_MAX = _STEPS * _STEPS
_PLACES = np.arange(4, dtype=np.intp) << 8
"""Offsets in a table's row of the values of each byte of a register."""

_REVERSED_POLYNOMIAL = np.uint32(0x82F63B78)

assert BLOCK_ENTRIES * ENTRY_BYTES_MAX <= _MOVED_BYTES_MAX


def can_check(columns: Columns) -> bool:
    """Whether `all_good` accepts these entries: none is empty, none is large."""
    sizes = np.frombuffer(columns.lengths, "<u4")
    return bool(sizes.min() > 0 and sizes.max() <= ENTRY_BYTES_MAX)


def all_good(columns: Columns, seed: int) -> bool:
    """Whether every digest is the CRC32C over `seed`, the entry's id in eight bytes, and its payload."""
    count = len(columns)
    first = np.arange(0, count, BLOCK_ENTRIES)
    last = np.minimum(first + BLOCK_ENTRIES, count) - 1
    starts = _starts(columns.entry_ids, seed)
    ends = np.cumsum(np.frombuffer(columns.lengths, "<u4"), dtype=np.uint32)
    summed = _summed(np.frombuffer(columns.digests, "<u4"), starts, ends, first, last)
    bounds = [0, *ends[last].tolist()]
    blocks = map(memoryview(columns.payload).__getitem__, map(slice, bounds, bounds[1:]))
    found: list[int] = list(map(crc32c, blocks, starts[first].tolist()))
    said: list[int] = summed.tolist()
    return found == said


def _summed(
    digests: Registers,
    starts: Registers,
    ends: Registers,
    first: npt.NDArray[np.intp],
    last: npt.NDArray[np.intp],
) -> Registers:
    """The value the register must have at the end of each block, given the digests in it."""
    parts = digests.copy()
    parts[:-1] ^= starts[1:]
    parts[last] = digests[last]
    to_go = np.repeat(ends[last], last - first + 1) - ends
    near, far = _tables()
    moved = _moved(_moved(parts, to_go % _STEPS, near), to_go // _STEPS, far)
    return np.bitwise_xor.reduceat(moved, first)


def _starts(entry_ids: bytes, seed: int) -> Registers:
    """The CRC over the seed and each id: the seed's part, and one for each byte of an id that may not be 0."""
    ids = np.frombuffer(entry_ids, np.uint8).reshape(-1, ID_BYTES)
    starts = np.full(len(ids), crc32c(bytes(ID_BYTES), seed), np.uint32)
    largest = int(np.frombuffer(entry_ids, "<u8").max())
    for place in range((largest.bit_length() + 7) // 8):
        starts ^= _id_tables()[place].take(ids[:, place])
    return starts


def _moved(registers: Registers, steps: Registers, table: Registers) -> Registers:
    """Each register after so many steps of zeros: the sum of the results for its four bytes."""
    places = registers.view(np.uint8).reshape(-1, 4) + _PLACES
    places += (steps.astype(np.intp) << 10)[:, None]
    parts = table.take(places)
    return parts[:, 0] ^ parts[:, 1] ^ parts[:, 2] ^ parts[:, 3]


@cache
def _tables() -> tuple[Registers, Registers]:
    """The result for each byte of a register after 0 … 255 bytes of zeros, and after 0 … 255 times 256 of them."""
    return _table(1), _table(_STEPS)


def _table(step_bytes: int) -> Registers:
    """By number of steps, place of the byte in the register, and value of the byte; flat."""
    single = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    step = single.ravel()
    for _ in range(step_bytes):
        step = _after_a_zero(step)
    table = np.empty((_STEPS, 4 * 256), np.uint32)
    table[0] = single.ravel()
    for steps in range(1, _STEPS):
        table[steps] = _moved(table[steps - 1], np.zeros(4 * 256, np.uint32), step)
    return table.ravel()


def _after_a_zero(registers: Registers) -> Registers:
    for _ in range(8):
        registers = registers >> np.uint32(1) ^ (registers & np.uint32(1)) * _REVERSED_POLYNOMIAL
    return registers


@cache
def _id_tables() -> Registers:
    """The contribution of each byte of an id to the register, by its place and its value."""
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
