"""Frames of the data protocol: turns received bytes into complete frames. Does no I/O, and owns the receive buffers.

    body_bytes  u32 little-endian
    call        u32: the call that this frame is part of; 0 if none; for a goodbye: see Goodbye
    kind        u32: see FrameKind
    body        a sealed message, or the JSON of a handshake

Many small frames are received at a time. Once a large body has begun, the rest of it is received into a separate
buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..grpc_methods import MESSAGE_BYTES_MAX
from ..named_tuples import made_of

HEADER = struct.Struct("<III")
HEADER_BYTES = HEADER.size

RECEIVE_BYTES_MIN = 4 * 1024
RECEIVE_BYTES = 64 * 1024
"""Sizes of the receive buffer while no large body is being received; a frame that does not fit gets a separate buffer.
A connection begins with the smaller size, and gets the larger one once the smaller buffer has been full, so that a
thousand quiet connections take up little memory."""

FRAMES_AT_ONCE_MAX = 4
"""Maximum number of frames of one connection handled per loop iteration, so that other connections get their turn."""

SMALL_BODY_BYTES_MAX = 16 * 1024
"""Maximum body size of a frame whose kind is not among the reader's large kinds."""

GREETING_BYTES_MAX = 4096
"""Maximum body size before the end of the handshake, so that unidentified peers take little memory."""

LARGE_PART_BYTES = 64 * 1024
"""A part of at least this size is sent without joining it to other parts, because a system call costs less than copying
it."""

Body = bytes | bytearray

Part = bytes | memoryview


class Goodbye(IntEnum):
    """Machine-readable reason why a bookie ends a connection, sent in the `call` field of its GOODBYE frame. The
    frame's body is the reason in words."""

    OTHERWISE = 0
    STARTING = 1  # the bookie is replaying its log, and will serve requests afterwards


class FrameKind(IntEnum):
    """Type of a frame. A bookie's answer to a call has the same kind and call number."""

    HELLO = 1  # client hello: the versions that the client speaks
    SERVER_HELLO = 2  # server hello: the chosen version, the bookie's incarnation
    GOODBYE = 3  # bookie: why the bookie ends the connection
    APPEND = 4
    ACKS = 5
    READ = 6
    LAST_ADD_CONFIRMED = 7
    HOLDINGS = 8
    INFO = 9
    CANCEL = 10  # client: cancels this call
    PING = 11
    PONG = 12
    REFUSED = 13  # bookie: why this call could not be decoded
    SCAN = 14  # like READ, but with many answers
    TAKEN = 15  # client: flow control: number of bytes of this scan that the client has taken


ALL_KINDS = frozenset(FrameKind)
_KINDS = {int(kind): kind for kind in FrameKind}


class Received(NamedTuple):
    """A complete frame that was received."""

    kind: FrameKind
    call: int
    body: Body


_received: Callable[[tuple[FrameKind, int, Body]], Received] = made_of(Received)


class BadFrame(ValueError):
    """Bytes that are not a frame of this protocol; the connection can no longer be used."""


def framed(kind: FrameKind, call: int, body: Sequence[Part]) -> list[Part]:
    """Returns the frame as buffers to be sent in order: large parts are not copied, small ones are joined."""
    size = sum(map(len, body))
    parts = [HEADER.pack(size, call, kind), *body]
    if size < LARGE_PART_BYTES:
        return [b"".join(parts)]
    buffers: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if len(part) < LARGE_PART_BYTES:
            small.append(part)
        else:
            buffers += [b"".join(small), part] if small else [part]
            small = []
    return [*buffers, b"".join(small)] if small else buffers


class FrameReader:
    """Incremental parser: receive into `buffer()`, then pass the number of bytes to `received`.

    Returns a few frames at a time. While `has_more` is True, `more` returns the next ones, and nothing can be received.
    When a large body begins, `wanted` is its size, and nothing can be received until `go_on` is called.
    """

    def __init__(self) -> None:
        self.body_bytes_max = GREETING_BYTES_MAX
        self.wanted = 0
        self.has_more = False
        self._large_kinds: Collection[FrameKind] = ALL_KINDS
        self._begin = self._end = 0  # range of bytes in `_small` that have not been taken yet
        self._small = bytearray(RECEIVE_BYTES_MIN)
        self._view = memoryview(self._small)
        self._large: Received | None = None
        self._filled = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a large body is being received."""
        return self._large is not None

    def handshake_done(self, large_kinds: Collection[FrameKind] = ALL_KINDS) -> None:
        """After the handshake, allows large frames of all kinds, or only of the given ones."""
        self.body_bytes_max = MESSAGE_BYTES_MAX
        self._large_kinds = large_kinds

    def go_on(self) -> None:
        """Allocates the buffer for the large body whose size is `wanted`."""
        size, call, kind = self._header()
        self._begin += HEADER_BYTES
        frame = Received(kind, call, bytearray(size))
        assert isinstance(frame.body, bytearray)
        self._filled = self._end - self._begin
        memoryview(frame.body)[: self._filled] = self._view[self._begin : self._end]
        self._begin = self._end
        self._large, self.wanted = frame, 0
        self._close_up()

    def buffer(self) -> memoryview:
        """Returns the buffer for the next bytes; never empty."""
        if self._large is not None:
            return memoryview(self._large.body)[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[Received]:
        """Processes this number of bytes received into `buffer()`; returns the first frames that are now complete.
        Raises BadFrame."""
        if self._large is not None:
            return self._received_large(count)
        frames: list[Received] = []
        begin, end = self._begin, self._end + count
        self._end, self.has_more = end, False
        while end - begin >= HEADER_BYTES:
            if len(frames) == FRAMES_AT_ONCE_MAX:
                self.has_more = True
                return frames
            size, call, kind = self._header()
            begin += HEADER_BYTES
            if begin + size > end:
                if HEADER_BYTES + size > len(self._small):
                    self.wanted = size
                break
            frames.append(_received((kind, call, bytes(self._view[begin : begin + size]))))
            self._begin = begin = begin + size
        if self._begin == end < len(self._small):
            self._begin = self._end = 0  # the usual case: everything has been taken
        elif not self.wanted:
            self._close_up()
        return frames

    def more(self) -> list[Received]:
        """Returns the next complete frames. Raises BadFrame."""
        return self.received(0)

    def _received_large(self, count: int) -> list[Received]:
        assert self._large is not None
        self._filled += count
        if self._filled < len(self._large.body):
            return []
        frame, self._large = self._large, None
        return [frame]

    def drop(self) -> None:
        """Frees the buffers of a lost connection, even if other objects still refer to this reader."""
        self._large, self.wanted, self.has_more = None, 0, False
        self._small = bytearray()
        self._view = memoryview(self._small)
        self._begin = self._end = 0

    def _header(self) -> tuple[int, int, FrameKind]:
        size, call, number = HEADER.unpack_from(self._small, self._begin)
        if size > self.body_bytes_max:
            raise BadFrame(f"a frame of {size} bytes; the limit is {self.body_bytes_max}")
        kind = _KINDS.get(number)
        if kind is None:
            raise BadFrame(f"a frame of unknown kind {number}")
        if size > SMALL_BODY_BYTES_MAX and kind not in self._large_kinds:
            raise BadFrame(f"a {kind.name} of {size} bytes; the limit is {SMALL_BODY_BYTES_MAX}")
        return size, call, kind

    def _close_up(self) -> None:
        """Moves an incomplete frame to the front of the buffer, or to a larger buffer."""
        left = self._end - self._begin
        if self._end == len(self._small) < RECEIVE_BYTES:
            larger = bytearray(RECEIVE_BYTES)
            larger[:left] = self._small[self._begin : self._end]
            self._small, self._view = larger, memoryview(larger)
        elif left and self._begin:
            self._small[:left] = self._small[self._begin : self._end]
        self._begin, self._end = 0, left
