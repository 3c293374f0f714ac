"""Frames of Hadoop's edit log: encodes, decodes and checksums ops without decoding their bodies.

A segment is a header followed by ops; a writer sends only the ops. All integers are big-endian.

    header, 8 bytes
     0  layout   i32  negative; a newer layout is smaller
     4  flags    i32  length of the layout's flags: 0, because no layout has any

    op, 17 bytes and its body
     0  opcode   u8   255 is not an op but the terminator: padding of 0 and 255 follows it
     1  length   u32  of itself, txid and body: 12 + body
     5  txid     i64
    13  body
        crc      u32  CRC-32 over everything before it

A length is checked against the remaining bytes before use, so no input makes a reader use more memory than the input
itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from zlib import crc32

from .errors import BrokenFrame, BrokenHeader

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 8
OP_BYTES_MIN = 17
OP_BYTES_MAX = 50 * 1024 * 1024
"""The maximum size of an op, including its frame; anything larger is considered damaged."""

TERMINATOR = 0xFF
PREALLOCATION_BYTES = 1024 * 1024
"""A segment in progress is padded with terminators to a multiple of this number of bytes."""

INVALID_TXID = -12345
"""Hadoop's value for "no transaction"."""

OLDEST_LAYOUT = -56
"""The first layout whose ops have a length field."""

_HEADER = struct.Struct(">ii")
_CRC = struct.Struct(">I")
_START = struct.Struct(">BIq")
_CRC_AND_START = struct.Struct(">IBIq")
_pack_start, _pack_crc = _START.pack, _CRC.pack
_LENGTH_MIN = OP_BYTES_MIN - 5
_LENGTH_MAX = OP_BYTES_MAX - 5


def encode_header(layout_version: int) -> bytes:
    return _HEADER.pack(layout_version, 0)


def decode_header(data: Buffer) -> int:
    """Decodes the layout version. Raises BrokenHeader. Accepts layouts newer than the newest known one."""
    if len(data) < HEADER_BYTES:
        raise BrokenHeader(f"the header is cut short: {len(data)} of {HEADER_BYTES} bytes")
    layout, flags = _HEADER.unpack_from(data)
    if layout >= -1:
        raise BrokenHeader(f"{layout} is not a layout version: the header was never written, or is damaged")
    if layout > OLDEST_LAYOUT:
        raise BrokenHeader(
            f"layout {layout} is too old: ops have a length only from layout {OLDEST_LAYOUT} on"
        )
    if flags:
        raise BrokenHeader(f"the header claims {flags} bytes of layout flags; no layout has any")
    return int(layout)


def segment_bytes(layout_version: int, frames: Iterable[Buffer], *, padding: bool = False) -> bytes:
    """Encodes a complete segment file; with `padding`, pads it like one that is still being written."""
    data = b"".join([encode_header(layout_version), *frames])
    if not padding:
        return data
    return data + bytes([TERMINATOR]) * (-len(data) % PREALLOCATION_BYTES)


def encode_frame(opcode: int, txid: int, body: Buffer) -> bytes:
    """Encodes one op. Raises ValueError if no reader would accept the body."""
    length = _LENGTH_MIN + len(body)
    if length > _LENGTH_MAX:
        raise ValueError(f"a body of {len(body)} bytes exceeds the maximum size of an op")
    frame = _pack_start(opcode, length, txid) + body
    return frame + _pack_crc(crc32(frame))


def frame_at(data: Buffer, offset: int) -> tuple[int, int, int]:
    """Returns (opcode, txid, end) of the op at `offset`. Raises BrokenFrame unless it is complete and undamaged."""
    left = len(data) - offset
    if left > 0 and data[offset] == TERMINATOR:
        raise BrokenFrame(offset, "an op was expected here, but the terminator was found")
    if left < OP_BYTES_MIN:
        raise BrokenFrame(offset, f"the op is cut short: {left} bytes, but an op has at least {OP_BYTES_MIN}")
    opcode, length, txid = _START.unpack_from(data, offset)
    if not _LENGTH_MIN <= length <= _LENGTH_MAX:
        raise BrokenFrame(
            offset, f"the op claims a length of {length}; it must be {_LENGTH_MIN} to {_LENGTH_MAX}"
        )
    if length + 5 > left:
        raise BrokenFrame(offset, f"the op is cut short: {left} of {length + 5} bytes")
    crc_at = offset + 1 + length
    if crc32(data[offset:crc_at]) != _CRC.unpack_from(data, crc_at)[0]:
        raise BrokenFrame(
            offset, f"checksum mismatch in the op (transaction {txid}, if that number is undamaged)"
        )
    return opcode, txid, crc_at + 4


def follow(data: Buffer, offset: int, txid: int, txid_end: int) -> tuple[int, int]:
    """Skips complete, undamaged ops of the transactions txid, txid + 1, … before `txid_end`.

    Returns the offset and the transaction at which it stopped. If that is before `txid_end`, the op at that offset is
    not the next in sequence, or is damaged, or is the last one of `data`: `frame_at` determines which.
    """
    # One unpack per op: an op's checksum and the start of the next op are adjacent.
    unpack, checksum = _CRC_AND_START.unpack_from, crc32
    crc_at_max = len(data) - _CRC_AND_START.size
    if offset > crc_at_max:
        return offset, txid
    opcode, length, found = _START.unpack_from(data, offset)
    for expected in range(txid, txid_end):
        crc_at = offset + 1 + length
        if found != expected or length < _LENGTH_MIN or crc_at > crc_at_max:
            return offset, expected
        if opcode == TERMINATOR or length > _LENGTH_MAX:
            return offset, expected
        crc, opcode, length, found = unpack(data, crc_at)
        if checksum(data[offset:crc_at]) != crc:
            return offset, expected
        offset = crc_at + 4
    return offset, max(txid, txid_end)
