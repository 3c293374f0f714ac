"""Message bytes on the wire: a checksum, a protobuf message, and attachments (columns of entries) behind it.

    checksum      u32 little-endian: CRC32C over all that follows
    header_bytes  u32 little-endian
    header        a protobuf message, see bookie.proto
    columns       of each frame in turn: entry ids, lengths, digests, payload, as they are in memory

The checksum rejects damaged messages before anything is decoded. Payloads are attached because protobuf copies what
it carries many times: most of the time of reading went there. Nothing is encrypted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c
from google.protobuf.message import Message

from .columns import ID_BYTES, LENGTH_BYTES, BadColumns, Columns

_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = struct.Struct("<I")
_HEADER_AT = _CHECKSUM.size + _HEADER_BYTES.size

_SEED = crc32c(b"bookledger 2")
"""Tells this layout from others; change it with the layout."""


Sealed = list[bytes | memoryview]
"""A message in parts, to be sent in order: attached columns are not copied."""


class BadMessage(ValueError):
    """Bytes from the network that are no message of this protocol."""


def sealed(message: Message, columns: Iterable[Columns] = ()) -> Sealed:
    """Encodes a message with its attachments, behind a checksum."""
    header = message.SerializeToString()
    parts: Sealed = [_HEADER_BYTES.pack(len(header)), header]
    for one in columns:
        parts += (one.entry_ids, one.lengths, one.digests, one.payload)
    checksum = _SEED
    for part in parts:
        checksum = crc32c(part, checksum)
    return [_CHECKSUM.pack(checksum), *parts]


def checksum_fits(data: bytes | bytearray) -> bool:
    """Whether these are exactly the bytes of a sealed message, undamaged."""
    if len(data) < _HEADER_AT:
        return False
    return bool(_CHECKSUM.unpack_from(data)[0] == crc32c(memoryview(data)[_CHECKSUM.size :], _SEED))


class Unsealed:
    """Decodes a sealed message: the header, and attached columns to be taken one after the other.

    Raises BadMessage for a wrong checksum or length.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        if not checksum_fits(data):
            raise BadMessage("checksum mismatch in a message that arrived")
        view = memoryview(data).toreadonly()
        end = _HEADER_AT + _HEADER_BYTES.unpack_from(data, _CHECKSUM.size)[0]
        if end > len(data):
            raise BadMessage("a message is shorter than its header")
        self.header = view[_HEADER_AT:end]
        self._body, self._at = view, end

    def columns(self, entries: int, digests_bytes: int, payload_bytes: int) -> Columns:
        """Takes the next columns. Raises BadMessage where they do not fit together, or the message is too short."""
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
        """Raises BadMessage for bytes behind the last attachment."""
        if (left := len(self._body) - self._at) > 0:
            raise BadMessage(f"{left} bytes are left over behind a message")
