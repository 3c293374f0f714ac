"""Frames of Hadoop's IPC: a length, and behind it messages, each behind a varint that says how long it is."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ..errors import BadFrame

MAGIC = b"hrpc"
IPC_VERSION = 9
SIMPLE, SASL = 0x00, 0xDF
"""What a client says of its authentication: none at all, or SASL, in which it is told that none is needed."""

PREAMBLE_BYTES = 7

FRAME_BYTES_MAX = 128 * 1024 * 1024
"""Largest frame that is taken in, as in stock Hadoop (`ipc.maximum.data.length`)."""

VARINT_BYTES_MAX = 5

_LENGTH = struct.Struct(">I")


class FrameReader:
    """Puts frames together out of bytes as they come. `size_max` bounds one frame."""

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self.size_max = size_max
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """Of a frame that is not whole."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole now, in order. Raises BadFrame for one that is too large.

        `size_max` counts as it is when a frame's turn comes: whoever takes one may change it for those behind it.
        """
        self._buffer += data
        return self._frames()

    def _frames(self) -> Iterator[bytes]:
        offset = 0
        try:
            while len(self._buffer) - offset >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(self._buffer, offset)
                if size > self.size_max:
                    raise BadFrame(f"a frame of {size} bytes was announced; {self.size_max} is the most")
                if len(self._buffer) - offset - _LENGTH.size < size:
                    break
                offset += _LENGTH.size
                with memoryview(self._buffer) as view:
                    frame = bytes(view[offset : offset + size])
                offset += size
                yield frame
        finally:
            del self._buffer[:offset]

    def take(self, count: int) -> bytes | None:
        """The first bytes, which are no frame; None until there are so many."""
        if len(self._buffer) < count:
            return None
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def put(self, data: bytes) -> None:
        """Takes bytes in without a look at frames."""
        self._buffer += data


def parts_of(frame: bytes) -> list[bytes]:
    """The messages of a frame. Raises BadFrame where their lengths do not add up to it."""
    parts: list[bytes] = []
    offset = 0
    while offset < len(frame):
        size, offset = _varint(frame, offset)
        if size > len(frame) - offset:
            raise BadFrame(f"a message of {size} bytes was announced where {len(frame) - offset} are left")
        parts.append(frame[offset : offset + size])
        offset += size
    return parts


def frame_of(parts: Iterable[bytes]) -> bytes:
    """The inverse, with the frame's length before it."""
    joined: list[bytes] = [b""]
    for part in parts:
        joined += (_encoded(len(part)), part)
    joined[0] = _LENGTH.pack(sum(map(len, joined)))
    return b"".join(joined)


def _varint(frame: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index in range(VARINT_BYTES_MAX):
        if offset == len(frame):
            break
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, offset
    raise BadFrame("the length of a message is cut short, or longer than any")


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
