"""One end of a data protocol connection: frames both ways, back-pressure, keepalive pings.

Client and bookie use the same class; their handlers interpret the frames. A connection always notifies its handler,
exactly once, that the connection is lost, and why.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar, cast

from ...addresses import join_host_port
from .framing import BadFrame, Body, FrameKind, FrameReader, Part, Received, framed
from .in_process import InProcessTransport, MessageProtocol
from .outbox import Outbox

WRITE_BUFFER_BYTES_MAX = 1024 * 1024
"""Send backlog above which `is_writable` is False, and only replies may be added to the backlog."""

KEEPALIVE_SECONDS = 10.0
"""An end that has received nothing for this long sends a ping."""

ASKED_SHARE_MIN = 0.1
"""Rate limit on pings: if two pings are less than this fraction of KEEPALIVE_SECONDS apart, reading pauses for the same
fraction of KEEPALIVE_SECONDS."""

SILENCE_SECONDS_MAX = 20.0
"""Idle timeout of an end that sends pings: if it has received nothing for this long, it ends the connection."""

BUSY_TURN_SECONDS = 0.001
"""If a loop iteration takes longer than this, the loop is considered busy."""

LOOK_SECONDS_MIN = 0.01
"""Minimum time between two liveness checks."""

LATE_SECONDS = 1.0
"""If a timer is this late, the process must have been suspended, and bytes that arrived in the meantime have not been
read yet."""

SIGNS_OF_LIFE = frozenset({FrameKind.PING, FrameKind.PONG})
_KIND = attrgetter("kind")
M = TypeVar("M")

UNTAKEN = "the peer does not take the bytes sent to it"
NO_MEMORY = "there is no memory for its message"
TOO_OFTEN = "it sends too many pings"
NEXT_TURN = "the remaining frames wait for the next turn"


class ConnectionMemory(Protocol):
    """Memory quota for large bodies. A handler frees a body's memory once it is done with it."""

    def take_now(self, amount: int) -> bool: ...

    async def take(self, amount: int) -> None: ...


class Handler(Protocol):
    """Handles a connection's frames and events."""

    def received(self, kind: FrameKind, call: int, body: Body) -> None:
        """Handles a frame. An exception ends the connection."""
        ...

    def writable(self) -> None:
        """Called when the send backlog has drained: `is_writable` is True again."""
        ...

    def lost(self, why: str) -> None:
        """Called once when the connection is lost, including after `close` and `abort`."""
        ...


class Connection(MessageProtocol):
    """One end of a connection. `asks`: whether it sends pings; otherwise it only answers them.

    `heard_at`: time when the last bytes were received, by the loop's clock. `untaken_bytes_max`, for servers: reading
    from the peer stops while the send backlog is this large. With `memory`, a large body is not received until there is
    room for it.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        asks: bool,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        untaken_bytes_max: int | None = None,
    ) -> None:
        self.handler = handler
        self.reader = FrameReader()
        self.memory: ConnectionMemory | None = None
        self.received_bytes = self.sent_bytes = 0
        self.large_seconds = 0.0
        """How long it took to receive the latest large body."""
        self._large_began_at = 0.0
        self._untaken_bytes_max = untaken_bytes_max
        self._taken_bytes = -1
        self._turn_began_at = 0.0
        self._asked_at = -math.inf
        self._until_room: asyncio.Task[None] | None = None
        self.is_writable = False
        self.is_lost = False
        self._asks = asks
        self._silence_seconds_max = silence_seconds_max
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._why = ""
        self._is_ending = False
        self.heard_at = self._loop.time()
        self._look_at = self.heard_at
        self._look: asyncio.TimerHandle | None = None
        self._holds: set[str] = set()

    # --- used by the owner --------------------------------------------------------------------

    def send(self, kind: FrameKind, call: int = 0, body: Sequence[Part] = ()) -> None:
        """Queues a frame; does nothing on a connection that is lost or that this side has ended."""
        transport = self._transport
        if transport is None or self._is_ending:
            return
        buffers = framed(kind, call, body)
        self.sent_bytes += sum(map(len, buffers))
        if self._outbox is not None:
            self._outbox.send(buffers)
            return
        # `writelines` is not used: it joins all parts before Python 3.12, and does not pause the writer from 3.12 on.
        for buffer in buffers:
            transport.write(buffer)

    def send_message(
        self, kind: FrameKind, message: M, size_of: Callable[[M], int], encode: Callable[[M], Sequence[Part]]
    ) -> None:
        """Sends an immutable message: as an object if the peer is in this process and takes objects, otherwise as a
        frame."""
        transport, passed_bytes = self._transport, None
        if isinstance(transport, InProcessTransport) and not self._is_ending:
            passed_bytes = transport.write_message(message, size_of)
        if passed_bytes is None:
            self.send(kind, 0, encode(message))
        else:
            self.sent_bytes += passed_bytes

    def hold(self, reason: str) -> None:
        """Pauses reading from the peer until `go_on` has been called for every reason passed to `hold`."""
        if not self._holds and self._transport is not None and not self.is_lost:
            self._transport.pause_reading()
        self._holds.add(reason)

    def go_on(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self._transport is not None and not self.is_lost:
            self.heard_at = self._loop.time()  # reading was paused, so the peer does not count as silent
            self._transport.resume_reading()

    @property
    def tls(self) -> ssl.SSLObject:
        """TLS state of the connection, including the peer's certificate. Raises ConnectionError if the connection is
        lost."""
        if self._transport is None:
            raise ConnectionResetError(self._why or "the connection was lost")
        return cast("ssl.SSLObject", self._transport.get_extra_info("ssl_object"))

    @property
    def peer_address(self) -> str:
        """Host and port of the peer's end; "" if unknown."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return join_host_port(str(name[0]), name[1]) if name else ""

    @property
    def taken_bytes(self) -> int:
        """Number of sent bytes that the kernel has accepted."""
        if self._outbox is not None:
            return self.sent_bytes - self._outbox.size_bytes
        return self.sent_bytes - (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def holds(self) -> frozenset[str]:
        """The reasons why reading is paused."""
        return frozenset(self._holds)

    @property
    def is_held(self) -> bool:
        """Whether reading is paused for any reason."""
        return bool(self._holds)

    def close(self, why: str = "it was closed") -> None:
        """Ends the connection once the kernel has accepted all sent bytes."""
        self._why, self._is_ending = self._why or why, True
        if self._outbox is not None and not self.is_lost:
            self._outbox.close()
        elif self._transport is not None and not self.is_lost:
            self._transport.close()

    def abort(self, why: str) -> None:
        """Ends the connection now."""
        self._why, self._is_ending = self._why or why, True
        if self._transport is not None and not self.is_lost:
            self._transport.abort()

    # --- called by asyncio --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        bytes_max = self._untaken_bytes_max or WRITE_BUFFER_BYTES_MAX
        if self._transport.get_extra_info("ssl_object") is None:
            self._transport.set_write_buffer_limits(high=bytes_max)
        else:
            self._outbox = Outbox(self._transport, bytes_max, self._is_full, self._has_drained)
        self.is_writable = True
        self.heard_at = self._loop.time()
        self._look_later(KEEPALIVE_SECONDS if self._asks else self._silence_seconds_max)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self.reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_at = self._loop.time()
        self.received_bytes += nbytes
        try:
            frames = self.reader.received(nbytes)
        except BadFrame as error:
            self.abort(f"its bytes cannot be decoded: {error}")
            return
        self._take_all(frames)

    def message_received(self, message: Any, size_bytes: int) -> None:
        self.heard_at = self._loop.time()
        self.received_bytes += size_bytes
        if self._is_ending or self.on_message is None:
            return
        try:
            self.on_message(message)
        except Exception as error:
            self.abort(f"its stream failed: {error!r}")  # notifies the owner
            raise

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.hold()
        else:
            self._is_full()

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.go_on()
        else:
            self._has_drained()

    def _is_full(self) -> None:
        self.is_writable = False
        if self._untaken_bytes_max is not None:
            self.hold(UNTAKEN)

    def _has_drained(self) -> None:
        self.is_writable = True
        if self._untaken_bytes_max is not None:
            self.go_on(UNTAKEN)
        self.handler.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost, self.is_writable = True, False
        if self._look is not None:
            self._look.cancel()
        if self._until_room is not None:
            self._until_room.cancel()
        self.reader.drop()
        if self._outbox is not None:
            self._outbox.drop()
        # The transport below TLS refers to this object and its buffers. Break this reference cycle, because the objects
        # would otherwise stay in memory until garbage collection.
        self._transport = self._outbox = None
        self.handler.lost(self._why or ("it ended the connection" if exc is None else _describe_error(exc)))

    # ------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Processes bytes that arrived before this object became the connection's protocol."""
        view = memoryview(data)
        while view and not self._is_ending:
            room = self.reader.buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self.buffer_updated(count)
            if view and self._holds:
                self.abort("it sends more than a client hello before the handshake is complete")

    def _take_all(self, frames: Sequence[Received]) -> None:
        """Handles the frames of one loop iteration; the remaining frames are handled in later iterations, before
        anything else is read."""
        if FrameKind.PING in map(_KIND, frames):
            self._is_asked()
        for kind, call, body in frames:
            if self._is_ending:
                return
            if isinstance(body, bytearray):
                self.large_seconds = self.heard_at - self._large_began_at
            if kind in SIGNS_OF_LIFE:
                continue
            try:
                self.handler.received(kind, call, body)
            except Exception as error:
                # The owner must be notified of any error; otherwise a caller would wait forever.
                self.abort(f"its stream failed: {error!r}")
                raise
        if self.reader.has_more:
            self.hold(NEXT_TURN)
            self._turn_began_at = self._loop.time()
            self._loop.call_soon(self._turn_is_over)
            return
        if self.reader.wanted:
            self._large_began_at = self._loop.time()
            self._make_room(self.reader.wanted)
        if NEXT_TURN in self._holds:
            self.go_on(NEXT_TURN)

    def _is_asked(self) -> None:
        """Answers a batch of pings with one pong. Pauses reading from a peer that sends far too many."""
        self.send(FrameKind.PONG)
        before, self._asked_at = self._asked_at, self._loop.time()
        pause = KEEPALIVE_SECONDS * ASKED_SHARE_MIN
        if self._asked_at - before < pause and TOO_OFTEN not in self._holds:
            self.hold(TOO_OFTEN)
            self._loop.call_later(pause, self._hear_again)

    def _hear_again(self) -> None:
        self.go_on(TOO_OFTEN)
        if self.reader.has_more:
            self._take_more()

    def _turn_is_over(self) -> None:
        """Handles the peer's remaining frames: immediately, or, if the loop is busy, after a pause as long as this
        iteration."""
        seconds = self._loop.time() - self._turn_began_at
        if seconds < BUSY_TURN_SECONDS:
            self._take_more()
        else:
            self._loop.call_later(seconds, self._take_more)

    def _take_more(self) -> None:
        if self._is_ending or self.is_lost or TOO_OFTEN in self._holds:
            return
        try:
            frames = self.reader.more()
        except BadFrame as error:
            self.abort(f"its bytes cannot be decoded: {error}")
            return
        self._take_all(frames)

    def _make_room(self, size: int) -> None:
        if self.memory is None or self.memory.take_now(size):
            self.reader.go_on()
            return
        self.hold(NO_MEMORY)
        self._until_room = self._loop.create_task(self.memory.take(size))
        self._until_room.add_done_callback(self._has_room)

    def _has_room(self, task: asyncio.Task[None]) -> None:
        self._until_room = None
        if not task.cancelled() and not self.is_lost:
            task.result()
            self.reader.go_on()
            self.go_on(NO_MEMORY)

    def _look_later(self, seconds: float) -> None:
        """Schedules the next liveness check for this many seconds after the last bytes were received."""
        # A timer may fire early by a tick or a rounding error: in that case, do not check again immediately.
        self._look_at = max(self.heard_at + seconds, self._loop.time() + LOOK_SECONDS_MIN)
        self._look = self._loop.call_at(self._look_at, self._look_for_life)

    def _look_for_life(self) -> None:
        now = self._loop.time()
        is_late = now - self._look_at > LATE_SECONDS
        if is_late or self._holds:
            self.heard_at = now
        if UNTAKEN in self._holds and not is_late:
            before, self._taken_bytes = self._taken_bytes, self.taken_bytes
            if before == self._taken_bytes:
                self.abort(UNTAKEN)
                return
        silent = now - self.heard_at
        if silent >= self._silence_seconds_max:
            self.abort(f"no sign of life for {silent:.0f} s")
            return
        if not self._asks:
            self._look_later(self._silence_seconds_max)
        elif silent < KEEPALIVE_SECONDS:
            self._look_later(KEEPALIVE_SECONDS)
        else:  # ping: if no reply arrives before the next check, the connection ends
            self.send(FrameKind.PING)
            self._look_later(self._silence_seconds_max)


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
