"""Frames of Hadoop's IPC: a length, followed by messages, each preceded by its own length as a varint."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ...edits.errors import BrokenOp
from ...edits.fields.protobuf import read_varint, write_varint
from ..errors import BadRpcFrame

MAGIC = b"hrpc"
IPC_VERSION = 9
SIMPLE, SASL = 0x00, 0xDF
"""A client's choice of authentication: none, or SASL. The server tells a client that chooses SASL that no
authentication is needed."""

PREAMBLE_BYTES = 7

FRAME_BYTES_MAX = 128 * 1024 * 1024
"""The largest frame accepted, as in stock Hadoop (`ipc.maximum.data.length`)."""

_LENGTH = struct.Struct(">I")

_MORE_THAN_A_BYTE = 0x80
"""The bit in a byte of a varint that indicates that further bytes follow."""


class RpcFrameReader:
    """Reassembles frames from bytes as they arrive. `size_max` limits the size of a frame."""

    def __init__(self, size_max: int = FRAME_BYTES_MAX) -> None:
        self.size_max = size_max
        self._buffer: bytes | bytearray = b""

    @property
    def buffered_bytes(self) -> int:
        """The number of buffered bytes of the frame that is still incomplete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """Yields the frames that are now complete. Raises BadRpcFrame if a frame is too large.

        `size_max` is read for each frame, so the consumer of one frame may change it for the following ones.
        """
        self.put(data)
        return self._frames()

    def _frames(self) -> Iterator[memoryview]:
        if self._end_of_frame(self._buffer, 0) is None:
            return
        whole, self._buffer = self._buffer, b""
        view, offset = memoryview(whole), 0
        try:
            while (end := self._end_of_frame(view, offset)) is not None:
                frame, offset = view[offset + _LENGTH.size : end], end
                yield frame
        finally:
            self._buffer = bytes(view[offset:]) + self._buffer

    def _end_of_frame(self, data: bytes | bytearray | memoryview, offset: int) -> int | None:
        """Returns the end of the frame at `offset`, or None if the frame is incomplete."""
        if len(data) - offset < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(data, offset)
        if size > self.size_max:
            raise BadRpcFrame(f"a frame of {size} bytes was announced; at most {self.size_max} are allowed")
        end: int = offset + _LENGTH.size + size
        return end if end <= len(data) else None

    def take(self, count: int) -> bytes | None:
        """Takes the first `count` bytes, which are not part of a frame. Returns None until they have arrived."""
        if len(self._buffer) < count:
            return None
        taken, self._buffer = bytes(self._buffer[:count]), self._buffer[count:]
        return taken

    def put(self, data: bytes) -> None:
        """Buffers bytes without parsing frames. Does not copy the first bytes, because they may be a complete frame."""
        if not self._buffer:
            self._buffer = data
            return
        if isinstance(self._buffer, bytes):
            self._buffer = bytearray(
                self._buffer
            )  # so that appending bytes later does not copy the whole buffer
        self._buffer += data


def parts_of(frame: bytes | memoryview) -> list[bytes]:
    """Splits a frame into messages. Raises BadRpcFrame if their lengths do not add up."""
    parts: list[bytes] = []
    offset = 0
    while offset < len(frame):
        size, offset = frame[offset], offset + 1
        if size >= _MORE_THAN_A_BYTE:
            size, offset = _length_at(frame, offset - 1)
        if size > len(frame) - offset:
            raise BadRpcFrame(
                f"a message of {size} bytes was announced, but only {len(frame) - offset} are left"
            )
        parts.append(bytes(frame[offset : offset + size]))
        offset += size
    return parts


def frame_of(parts: Iterable[bytes]) -> bytes:
    """Joins messages into a frame, preceded by its length."""
    joined: list[bytes] = [b""]
    for part in parts:
        joined += (write_varint(len(part)), part)
    joined[0] = _LENGTH.pack(sum(map(len, joined)))
    return b"".join(joined)


def _length_at(frame: bytes | memoryview, offset: int) -> tuple[int, int]:
    try:
        return read_varint(frame, offset)
    except (IndexError, BrokenOp) as error:
        raise BadRpcFrame("the length of a message is truncated or too long") from error
