"""One end of a connection of the data protocol: frames both ways, back-pressure, signs of life.

Client and bookie use the same class; what the frames mean is their handlers' business. Whatever happens, the handler
is told once that the connection is lost, and why.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol, cast

from .framing import BadFrame, Body, FrameReader, Kind, Part, Received, framed
from .outbox import Outbox

WRITE_BUFFER_BYTES_MAX = 1024 * 1024
"""Sent and not taken by the kernel: past it `is_writable` says no, and nobody but answers is added."""

KEEPALIVE_SECONDS = 10.0
"""An end that has heard nothing for so long asks for a sign of life."""

ASKED_SHARE_MIN = 0.1
"""Of these seconds lie between one question and the next, or nothing is read until they are over."""

SILENCE_SECONDS_MAX = 20.0
"""A connection is given up when nothing is heard for so long by an end that asks."""

BUSY_TURN_SECONDS = 0.001
"""A turn of the event loop that takes longer has much to do."""

LOOK_SECONDS_MIN = 0.01
"""Between one look and the next."""

LATE_SECONDS = 1.0
"""A timer this late means that the process stood still: what came meanwhile has not been read."""

_KIND = attrgetter("kind")

UNTAKEN = "the peer does not take what is sent to it"
NO_MEMORY = "there is no room for what it sends"
TOO_OFTEN = "it asks too often for signs of life"
NEXT_TURN = "the rest of what came is for the next turn"


class Memory(Protocol):
    """Room for large bodies. Whoever gets one with `received` gives its room back once it is done with it."""

    def take_now(self, amount: int) -> bool: ...

    async def take(self, amount: int) -> None: ...


class Handler(Protocol):
    """Whose frames they are."""

    def received(self, kind: Kind, call: int, body: Body) -> None:
        """A frame came. What is raised here ends the connection."""
        ...

    def writable(self) -> None:
        """What was buffered has gone: `is_writable` again."""
        ...

    def lost(self, why: str) -> None:
        """Nothing more comes or goes. Called once, also after `close` and `abort`."""
        ...


class Connection(asyncio.BufferedProtocol):
    """See the module. `asks`: whether this end sends pings; the other then only listens for them.

    `heard_at`: when something came last, by the loop's clock. An end that serves (`untaken_bytes_max`) reads nothing
    more from a peer that has not taken so much of what was sent to it; where `memory` is set, large bodies wait for it.
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
        self.memory: Memory | None = None
        self.received_bytes = self.sent_bytes = 0
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

    # --- what an owner uses -------------------------------------------------------------------

    def send(self, kind: Kind, call: int = 0, body: Sequence[Part] = ()) -> None:
        """Queues a frame; nothing happens on a connection that is lost, or was ended by this side."""
        if self._transport is None or self.is_lost or self._is_ending:
            return
        buffers = framed(kind, call, body)
        self.sent_bytes += sum(map(len, buffers))
        if self._outbox is not None:
            self._outbox.send(buffers)
            return
        # Not `writelines`: before Python 3.12 it joins all, and later ones forget to pause the writer.
        for buffer in buffers:
            self._transport.write(buffer)

    def hold(self, reason: str) -> None:
        """Reads nothing more from the peer until `go_on` was called for every reason there is."""
        if not self._holds and self._transport is not None and not self.is_lost:
            self._transport.pause_reading()
        self._holds.add(reason)

    def go_on(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self._transport is not None and not self.is_lost:
            self.heard_at = self._loop.time()  # who is not read from may not be blamed for silence
            self._transport.resume_reading()

    @property
    def tls(self) -> ssl.SSLObject:
        """Of a connection with TLS: what it knows of the other end. Raises ConnectionError if it is lost."""
        if self._transport is None:
            raise ConnectionResetError(self._why or "the connection was lost")
        return cast("ssl.SSLObject", self._transport.get_extra_info("ssl_object"))

    @property
    def taken_bytes(self) -> int:
        """Of what was sent, so much is with the kernel."""
        if self._outbox is not None:
            return self.sent_bytes - self._outbox.size_bytes
        return self.sent_bytes - (0 if self._transport is None else self._transport.get_write_buffer_size())

    @property
    def holds(self) -> frozenset[str]:
        """The reasons for which nothing is read from the peer."""
        return frozenset(self._holds)

    @property
    def is_held(self) -> bool:
        """Whether nothing is read from the peer, for whatever reason."""
        return bool(self._holds)

    def close(self, why: str = "it was closed") -> None:
        """Ends the connection once all that was sent is with the kernel."""
        self._why, self._is_ending = self._why or why, True
        if self._outbox is not None and not self.is_lost:
            self._outbox.close()
        elif self._transport is not None and not self.is_lost:
            self._transport.close()

    def abort(self, why: str) -> None:
        """Ends it now."""
        self._why, self._is_ending = self._why or why, True
        if self._transport is not None and not self.is_lost:
            self._transport.abort()

    # --- what asyncio calls -------------------------------------------------------------------

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
            self.abort(f"what it sent cannot be understood: {error}")
            return
        self._take_all(frames)

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
        # Beneath TLS the transport holds us, and its buffers: in a circle they would wait for the collector.
        self._transport = self._outbox = None
        self.handler.lost(self._why or ("it ended the connection" if exc is None else _told(exc)))

    # ------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Bytes that came before this was the connection's protocol."""
        view = memoryview(data)
        while view and not self._is_ending:
            room = self.reader.buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self.buffer_updated(count)
            if view and self._holds:
                self.abort("it says more than a greeting before it is welcomed")

    def _take_all(self, frames: Sequence[Received]) -> None:
        """What a turn has; the rest in later turns, before anything more is read."""
        if Kind.PING in map(_KIND, frames):
            self._is_asked()
        for frame in frames:
            if self._is_ending:
                return
            self._take(frame)
        if self.reader.has_more:
            self.hold(NEXT_TURN)
            self._turn_began_at = self._loop.time()
            self._loop.call_soon(self._turn_is_over)
            return
        if self.reader.wanted:
            self._make_room(self.reader.wanted)
        if NEXT_TURN in self._holds:
            self.go_on(NEXT_TURN)

    def _is_asked(self) -> None:
        """One answer tells that we live. Who asks far more often than anybody needs is not heard for a while."""
        self.send(Kind.PONG)
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
        """Who has more to say than a turn allows gets half of a busy loop, and the others the rest."""
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
            self.abort(f"what it sent cannot be understood: {error}")
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

    def _take(self, frame: Received) -> None:
        if frame.kind in (Kind.PING, Kind.PONG):
            return
        try:
            self.handler.received(*frame)
        except Exception as error:
            # Whatever it was, the owner must hear of it, or somebody waits for ever.
            self.abort(f"its stream failed: {error!r}")
            raise

    def _look_later(self, seconds: float) -> None:
        """Looks again when it has been silent for so long, counted from when something came last."""
        # A timer may ring a tick early, or differ by a rounding: then not at once again.
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
        else:  # who does not answer this until then is given up, and nobody who was not asked
            self.send(Kind.PING)
            self._look_later(self._silence_seconds_max)


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
