"""Message bytes on the wire: a checksum and a protobuf message, followed by attachments (columns of entries).

    checksum      u32 little-endian: CRC32C over everything that follows
    header_bytes  u32 little-endian
    header        a protobuf message, see bookie.proto; or fields of fixed width (codec/appends.py)
    columns       of each frame in turn: entry ids, lengths, digests, payload, as they are in memory

The checksum rejects damaged messages before anything is decoded. Payloads are attached instead of being protobuf
fields, because protobuf copies its fields many times, which took most of the time of a read. Nothing is encrypted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c
from google.protobuf.message import Message

from .columnar_entries import ID_BYTES, LENGTH_BYTES, BadColumns, Columns

_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = struct.Struct("<I")
_BEGINNING = struct.Struct("<II")
_CHECKSUM_BYTES, _BEGINNING_BYTES = _CHECKSUM.size, _BEGINNING.size

JOINED_BYTES_MAX = 4 * 1024
"""Columns with a payload of at most this size are joined into one buffer, which costs less than passing each on
separately."""

_SEED = crc32c(b"bookledger message 1")
"""Seed of the checksum. It distinguishes this layout from others; change it with the layout."""


Sealed = list[bytes | memoryview]
"""A message as buffers to be sent in order, so that large columns are not copied."""


DAMAGED = "checksum mismatch in a message that arrived"


class BadMessage(ValueError):
    """Bytes from the network that are not a message of this protocol."""


def sealed(message: Message, columns: Iterable[Columns] = ()) -> Sealed:
    """Encodes a message and its attachments, preceded by a checksum of both."""
    return sealed_bytes(message.SerializeToString(), columns)


def sealed_bytes(header: bytes, columns: Iterable[Columns] = ()) -> Sealed:
    """Same as `sealed`, but for a header that is already encoded."""
    parts: Sealed = []
    small: Sealed = [_HEADER_BYTES.pack(len(header)), header]
    for one in columns:
        if len(one.payload) <= JOINED_BYTES_MAX:
            small += (one.entry_ids, one.lengths, one.digests, one.payload)
        else:
            parts += (b"".join(small), one.entry_ids, one.lengths, one.digests, one.payload)
            small = []
    parts.append(b"".join(small))
    checksum = _SEED
    for part in parts:
        checksum = crc32c(part, checksum)
    return [_CHECKSUM.pack(checksum), *parts]


def unsealed_alone(data: bytes | bytearray) -> bytes | bytearray:
    """Returns the header of a message without attachments. Raises BadMessage."""
    if (left := len(data) - _header_end(data)) > 0:
        raise BadMessage(f"a message is followed by {left} extra bytes")
    return data[_BEGINNING_BYTES:]


def _header_end(data: bytes | bytearray) -> int:
    """Returns the end of the header. Raises BadMessage for a wrong checksum or length."""
    if len(data) < _BEGINNING_BYTES:
        raise BadMessage(DAMAGED)
    checksum, header_bytes = _BEGINNING.unpack_from(data)
    if checksum != crc32c(memoryview(data)[_CHECKSUM_BYTES:], _SEED):
        raise BadMessage(DAMAGED)
    end: int = _BEGINNING_BYTES + header_bytes
    if end > len(data):
        raise BadMessage("a message is shorter than its header")
    return end


class Unsealed:
    """Decodes a sealed message: the header, and attached columns to be taken one after the other.

    Raises BadMessage for a wrong checksum or length.
    """

    __slots__ = ("_at", "_body", "header")

    def __init__(self, data: bytes | bytearray) -> None:
        end, view = _header_end(data), memoryview(data).toreadonly()
        self.header = view[_BEGINNING_BYTES:end]
        self._body, self._at = view, end

    def columns(self, entries: int, digests_bytes: int, payload_bytes: int) -> Columns:
        """Returns the next columns. Raises BadMessage if they are inconsistent or the message is too short."""
        body, ids = self._body, self._at
        lengths = ids + ID_BYTES * entries
        digests = lengths + LENGTH_BYTES * entries
        payload = digests + digests_bytes
        self._at = payload + payload_bytes
        if self._at > len(body):
            raise BadMessage("a message is shorter than its columns")
        columns = Columns(
            body[ids:lengths].tobytes(),
            body[lengths:digests].tobytes(),
            body[digests:payload].tobytes(),
            body[payload : self._at],  # not copied
        )
        try:
            columns.check()
        except BadColumns as error:
            raise BadMessage(str(error)) from error
        return columns

    def end(self) -> None:
        """Raises BadMessage if any bytes follow the last attachment."""
        if (left := len(self._body) - self._at) > 0:
            raise BadMessage(f"a message is followed by {left} extra bytes")
