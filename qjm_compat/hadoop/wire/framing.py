"""Frames of Hadoop's IPC: a length, then messages, each with its length as a varint."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ...edits.errors import BrokenOp
from ...edits.fields.protobuf import read_varint, write_varint
from ..errors import BadFrame

MAGIC = b"hrpc"
IPC_VERSION = 9
SIMPLE, SASL = 0x00, 0xDF
"""A client's choice of authentication: none, or SASL, to which the server answers that none is needed."""

PREAMBLE_BYTES = 7

FRAME_BYTES_MAX = 128 * 1024 * 1024
"""Largest frame accepted, as in stock Hadoop (`ipc.maximum.data.length`)."""

_LENGTH = struct.Struct(">I")


class FrameReader:
    """Reassembles frames from bytes as they come. `size_max` bounds one frame."""

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self.size_max = size_max
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the partial frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the frames that are complete now. Raises BadFrame for one that is too large.

        `size_max` is read for each frame: the consumer of one may change it for those behind it.
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
        """Takes the first bytes, which are not a frame; None until there are so many."""
        if len(self._buffer) < count:
            return None
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def put(self, data: bytes) -> None:
        """Buffers bytes without parsing frames."""
        self._buffer += data


def parts_of(frame: bytes) -> list[bytes]:
    """Splits a frame into messages. Raises BadFrame if their lengths do not add up."""
    parts: list[bytes] = []
    offset = 0
    while offset < len(frame):
        size, offset = _length_at(frame, offset)
        if size > len(frame) - offset:
            raise BadFrame(f"a message of {size} bytes was announced where {len(frame) - offset} are left")
        parts.append(frame[offset : offset + size])
        offset += size
    return parts


def frame_of(parts: Iterable[bytes]) -> bytes:
    """Joins messages into a frame, with its length before it."""
    joined: list[bytes] = [b""]
    for part in parts:
        joined += (write_varint(len(part)), part)
    joined[0] = _LENGTH.pack(sum(map(len, joined)))
    return b"".join(joined)


def _length_at(frame: bytes, offset: int) -> tuple[int, int]:
    try:
        return read_varint(frame, offset)
    except (IndexError, BrokenOp) as error:
        raise BadFrame("the length of a message is cut short, or longer than any") from error
