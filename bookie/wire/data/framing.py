"""Frames on a connection: bytes in, whole frames out. A pure machine that owns the memory bytes are received into.

    body_bytes  u32 little-endian
    call        u32: of which call this is a part; 0 where there is none
    kind        u32: see Kind
    body        a sealed message, or the JSON of a greeting

What is small is received many frames at a time. The rest of a large body is received where it stays.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..rpc import MESSAGE_BYTES_MAX

HEADER = struct.Struct("<III")

RECEIVE_BYTES_MIN = 4 * 1024
RECEIVE_BYTES = 64 * 1024
"""Received at a time while no large body is under way; a frame that does not fit is received in place. A connection
begins with the least, and has the most once it has filled that: a thousand that say little take little."""

FRAMES_AT_ONCE_MAX = 4
"""Of one connection in one turn of the event loop: the others have their turn in between."""

SMALL_BODY_BYTES_MAX = 16 * 1024
"""Of kinds that need no more, where the reader is told which may be large."""

GREETING_BYTES_MAX = 4096
"""Largest body before both sides know each other: no stranger makes anybody keep more."""

LARGE_PART_BYTES = 64 * 1024
"""Of this size a part is sent by itself: a call of the kernel costs less than the copy."""

Body = bytes | bytearray

Part = bytes | memoryview


class Kind(IntEnum):
    """What a frame is. A bookie answers a call with the same kind and number."""

    HELLO = 1  # client: what it speaks
    WELCOME = 2  # bookie: what was chosen, who it is
    GOODBYE = 3  # bookie: why it ends the connection
    APPEND = 4
    ACKS = 5
    READ = 6
    LAST_ADD_CONFIRMED = 7
    HOLDINGS = 8
    INFO = 9
    CANCEL = 10  # client: nobody waits for this call any more
    PING = 11
    PONG = 12
    REFUSED = 13  # bookie: this call cannot be understood, and why
    SCAN = 14  # as READ, with many answers
    TAKEN = 15  # client: so much of this scan is taken


ALL_KINDS = frozenset(Kind)


class Received(NamedTuple):
    """A whole frame."""

    kind: Kind
    call: int
    body: Body


class BadFrame(ValueError):
    """Bytes that are no frame of this protocol; nothing that follows them can be understood."""


def framed(kind: Kind, call: int, body: Sequence[Part]) -> list[Part]:
    """The frame as buffers to be sent one behind the other: what is large is not copied, what is small is joined."""
    parts = [HEADER.pack(sum(map(len, body)), call, kind), *body]
    if max(map(len, parts)) < LARGE_PART_BYTES:
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
    """Takes bytes in: receive into `buffer()`, then say how many came.

    Frames are taken a few at a time: while it `has_more`, `more` gives the next ones, and nothing can be received. Nor
    can it where a large body begins: `wanted` says how many bytes it takes, until `go_on`.
    """

    def __init__(self) -> None:
        self.body_bytes_max = GREETING_BYTES_MAX
        self.wanted = 0
        self.has_more = False
        self._large_kinds: Collection[Kind] = ALL_KINDS
        self._begin = self._end = 0  # of what is received in `_small` and not taken
        self._small = bytearray(RECEIVE_BYTES_MIN)
        self._view = memoryview(self._small)
        self._large: Received | None = None
        self._filled = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a large body has begun to come, and is not whole."""
        return self._large is not None

    def has_greeted(self, large_kinds: Collection[Kind] = ALL_KINDS) -> None:
        """From here on frames may have the size that messages have; all, or only those of some kinds."""
        self.body_bytes_max = MESSAGE_BYTES_MAX
        self._large_kinds = large_kinds

    def go_on(self) -> None:
        """There is room for the large body that was `wanted`: it is received where it stays."""
        size, call, kind = self._header()
        self._begin += HEADER.size
        frame = Received(kind, call, bytearray(size))
        assert isinstance(frame.body, bytearray)
        self._filled = self._end - self._begin
        memoryview(frame.body)[: self._filled] = self._view[self._begin : self._end]
        self._begin = self._end
        self._large, self.wanted = frame, 0
        self._close_up()

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._large is not None:
            return memoryview(self._large.body)[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[Received]:
        """The first frames that are whole with these bytes. Raises BadFrame."""
        if self._large is None:
            self._end += count
            return self.more()
        self._filled += count
        if self._filled < len(self._large.body):
            return []
        frame, self._large = self._large, None
        return [frame]

    def more(self) -> list[Received]:
        """The next frames that are whole. Raises BadFrame."""
        frames: list[Received] = []
        self.has_more = False
        while self._end - self._begin >= HEADER.size:
            if len(frames) == FRAMES_AT_ONCE_MAX:
                self.has_more = True
                return frames
            size, call, kind = self._header()
            begin = self._begin + HEADER.size
            if begin + size > self._end:
                if HEADER.size + size > len(self._small):
                    self.wanted = size
                break
            frames.append(Received(kind, call, bytes(self._view[begin : begin + size])))
            self._begin = begin + size
        if not self.wanted:
            self._close_up()
        return frames

    def drop(self) -> None:
        """Nothing more is received: lets go of what was, whoever still holds this."""
        self._large, self.wanted, self.has_more = None, 0, False
        self._small = bytearray()
        self._view = memoryview(self._small)
        self._begin = self._end = 0

    def _header(self) -> tuple[int, int, Kind]:
        size, call, kind = HEADER.unpack_from(self._small, self._begin)
        if size > self.body_bytes_max:
            raise BadFrame(f"a frame of {size} bytes; the limit is {self.body_bytes_max}")
        try:
            known = Kind(kind)
        except ValueError:
            raise BadFrame(f"a frame of unknown kind {kind}") from None
        if size > SMALL_BODY_BYTES_MAX and known not in self._large_kinds:
            raise BadFrame(f"a {known.name} of {size} bytes; the limit is {SMALL_BODY_BYTES_MAX}")
        return size, call, known

    def _close_up(self) -> None:
        """What is left moves to the front, so that there is room for the rest of it."""
        left = self._end - self._begin
        if self._end == len(self._small) < RECEIVE_BYTES:
            larger = bytearray(RECEIVE_BYTES)
            larger[:left] = self._small[self._begin : self._end]
            self._small, self._view = larger, memoryview(larger)
        elif left and self._begin:
            self._small[:left] = self._small[self._begin : self._end]
        self._begin, self._end = 0, left
