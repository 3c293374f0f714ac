"""Joins two ends of a connection in one process: each end receives the other's writes in a later iteration of the event
loop.

The ends are the same protocols as over sockets, so frames, limits, back-pressure, handshake and goodbyes are the same.
Only the kernel and TLS are bypassed, and messages that both ends can pass as objects are not encoded
(`MessageProtocol`). A write never calls the peer, so no protocol is called back in the middle of another call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from metadata.records.ledger_record import BookieRef

from ...addresses import split_host_port

TURN_BYTES_MAX = 1024 * 1024
"""Maximum number of bytes that one end receives per loop iteration; copying them takes about 0.1 ms."""

LOW_WATER_SHARE = 4
"""A paused writer resumes when the waiting bytes have shrunk to a quarter of their limit, as in asyncio."""


M = TypeVar("M")


class MessageProtocol(asyncio.BufferedProtocol):
    """A protocol that can take messages as objects, in addition to bytes, in the order in which bytes and objects were
    sent.

    An object is not copied, changed or lost on its way, so it is neither encoded nor checked as bytes are.
    """

    on_message: Callable[[Any], None] | None = None
    """Handles the peer's messages; None if the protocol takes only bytes."""

    def message_received(self, message: Any, size_bytes: int) -> None:
        """Called with a message from the peer, but only if `on_message` is set."""


class _Message(NamedTuple):
    content: Any
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OwnBookie:
    """Connects clients in this process to the bookie that runs in this process. Belongs to the bookie's event loop.

    `connect` joins a client's end to the bookie immediately, or raises OSError with the reason why the bookie does not
    accept the connection.
    """

    bookie: BookieRef
    address: str
    connect: Callable[[asyncio.BufferedProtocol], None]


def join(one: asyncio.BufferedProtocol, other: asyncio.BufferedProtocol, address: str) -> None:
    """Connects the two ends, and calls `connection_made` of each. `address`: this process's address, which each end
    sees as its peer's."""
    ends = InProcessTransport(one, address), InProcessTransport(other, address)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in ends:
        end.protocol.connection_made(end)


class InProcessTransport(asyncio.Transport):
    """The transport of one end. Data written to it waits here until the peer takes it."""

    peer: InProcessTransport

    def __init__(self, protocol: asyncio.BufferedProtocol, address: str) -> None:
        super().__init__(extra={"peername": split_host_port(address)})
        self.protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[memoryview | _Message] = deque()
        self._waiting_bytes = 0
        self._waiting_bytes_max = 0
        self._is_reading = True
        self._is_full = False
        self._is_closing = False
        self._is_lost = False
        self._will_receive = False

    # --- used by the protocol -----------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queues data, which the caller must not change afterwards."""
        if len(data):
            self._pass_on(memoryview(data), len(data))

    def write_message(self, message: M, size_of: Callable[[M], int]) -> int | None:
        """Passes a message to the peer as an object, if the peer takes objects. The caller must not change the message
        afterwards.

        Returns the number of bytes that the message counts as; None if the peer does not take objects.
        """
        taker = self.peer.protocol
        if not (isinstance(taker, MessageProtocol) and taker.on_message):
            return None
        size_bytes = size_of(message)
        self._pass_on(_Message(message, size_bytes), size_bytes)
        return size_bytes

    def _pass_on(self, part: memoryview | _Message, size_bytes: int) -> None:
        if self._is_closing or self.peer._is_lost:
            return
        self._waiting.append(part)
        self._waiting_bytes += size_bytes
        self.peer.receive_soon()
        if self._waiting_bytes > self._waiting_bytes_max and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        self._waiting_bytes_max = high or 0

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._is_reading = True
            self.receive_soon()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Ends both transports once the peer has taken all written data."""
        self._is_closing, self._is_reading = True, False
        if not self._waiting:
            self._loop.call_soon(self.lose)

    def abort(self) -> None:
        """Ends both transports now; a peer that is reading still gets all written data."""
        self._is_closing, self._is_reading = True, False
        self._loop.call_soon(self.lose)

    # --- used by the other end ----------------------------------------------------------------

    def receive_soon(self) -> None:
        if not self._will_receive and not self._is_lost:
            self._will_receive = True
            self._loop.call_soon(self._receive)

    def pass_to(self, buffer: memoryview) -> int:
        """Moves into the buffer as many waiting bytes as fit, but none that were written after a waiting message."""
        filled = 0
        while self._waiting and filled < len(buffer):
            part = self._waiting[0]
            if isinstance(part, _Message):
                break
            count = min(len(part), len(buffer) - filled)
            buffer[filled : filled + count] = part[:count]
            filled += count
            if count == len(part):
                self._waiting.popleft()
            else:
                self._waiting[0] = part[count:]
        self._waiting_bytes -= filled
        return filled

    def next_message(self) -> _Message | None:
        """Takes the next item in the queue if it is a message; returns None if it is bytes."""
        part = self._waiting[0]
        if not isinstance(part, _Message):
            return None
        self._waiting.popleft()
        self._waiting_bytes -= part.size_bytes
        return part

    def has_passed(self) -> None:
        """Called after the peer has taken data: resumes a paused writer, or completes a pending close."""
        if self._is_closing and not self._waiting:
            self.lose()
        elif self._is_full and self._waiting_bytes <= self._waiting_bytes_max // LOW_WATER_SHARE:
            self._is_full = False
            self.protocol.resume_writing()

    def lose(self) -> None:
        """Notifies this end's protocol, once, that the connection is lost, and lets the peer take the
        remaining data."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._is_reading = False
            self.peer.receive_soon()
            self.protocol.connection_lost(None)

    # ------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        self._will_receive = False
        room = TURN_BYTES_MAX
        while room > 0 and self._is_reading and self.peer._waiting:
            room -= self._receive_next(room)
        if not self.peer._is_lost:
            self.peer.has_passed()
        if self._is_reading and self.peer._waiting:
            self.receive_soon()
        elif self.peer._is_lost:
            self.lose()

    def _receive_next(self, room: int) -> int:
        """Receives a message, or up to `room` bytes; returns the number of bytes received."""
        if (message := self.peer.next_message()) is not None:
            assert isinstance(self.protocol, MessageProtocol)
            self.protocol.message_received(*message)
            return message.size_bytes
        count = self.peer.pass_to(memoryview(self.protocol.get_buffer(-1))[:room])
        self.protocol.buffer_updated(count)
        return count
