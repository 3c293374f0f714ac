"""TCP as the data protocol uses it, over the simulated network: two ends, bytes in order, in pieces of any size.

Kept as asyncio and the kernel have it: bytes that were sent arrive also where their sender has closed since; who closes
with something unread resets the connection; a full window makes the other end's `write` pause; nobody is told that
bytes were lost. A message that the network loses breaks its direction for good: what is sent after it does not
arrive, and only some such connections are reset. The product has to notice the others by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Protocol

from bookie.wire.data.framing import HEADER, FrameKind
from tests.simulation.engine.loop import VirtualLoop
from tests.simulation.engine.processes import PROCESS

from .site import Pipe, Site, decide

RESET_SHARE = 0.5
"""Share of broken connections that are reset soon; the others are noticed by signs of life that are missing."""

KERNEL_BYTES_MAX = 32 * 1024
"""Sent and not read by the other end's process."""

SPLIT_SHARE = 0.05
"""Share of sends that arrive in two pieces."""

READ_BYTES_MAX = 256 * 1024
"""Read at a time by a protocol that has no buffer of its own."""

KINDS = {
    FrameKind.APPEND: "add",
    FrameKind.ACKS: "ack",
    FrameKind.READ: "read",
    FrameKind.SCAN: "read",
    FrameKind.LAST_ADD_CONFIRMED: "lac",
    FrameKind.INFO: "info",
    FrameKind.HOLDINGS: "holdings",
}

Factory = Callable[[], asyncio.BaseProtocol]


class Host(Protocol):
    """The other end: a bookie's machine."""

    name: str

    @property
    def is_up(self) -> bool: ...

    def deliver(self, event: Callable[[], None]) -> None:
        """The event reaches the process: now, or after its pause."""
        ...

    def accept(self) -> tuple[Factory, Context]:
        """Whose protocol serves one more connection, and in which context; the host is up."""
        ...

    def keep(self, end: VirtualSocket) -> None:
        """The process has this socket: it ends with the process."""
        ...


class Wire:
    """A connection: its two ends, and what is known of it."""

    def __init__(self, site: Site, client: str, host: Host) -> None:
        self.site = site
        self.client = client
        self.host = host
        self.near = VirtualSocket(self, client, host.name, _at_once)
        self.far = VirtualSocket(self, host.name, client, host.deliver)
        self.near.peer, self.far.peer = self.far, self.near

    def was_broken(self) -> None:
        if self.site.happens(RESET_SHARE, "reset", self.client, self.host.name):
            self.site.world.after(self.site.pace_seconds, self._reset)

    def _reset(self) -> None:
        for end in (self.near, self.far):
            end.is_reset()


class VirtualSocket(asyncio.Transport):
    """One end of a connection, and its kernel."""

    peer: VirtualSocket

    def __init__(
        self, wire: Wire, here: str, there: str, deliver: Callable[[Callable[[], None]], None]
    ) -> None:
        super().__init__(extra={"peername": (there, 0)})
        self.wire = wire
        self.is_lost = False
        self._site = wire.site
        self._loop: VirtualLoop = wire.site.loop
        self._here, self._there = here, there
        self._deliver = deliver
        self._context: Context = copy_context()
        self._protocol: Any = None
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._unsent_bytes = 0
        self._under_way = 0
        self._pipe = Pipe(wire.site, here, there, wire.was_broken)
        self._received: deque[bytes] = deque()
        self._has_eof = False
        self._is_reading = True
        self._is_woken = False
        self._is_closing = False
        self._is_paused = False
        self._high = 64 * 1024

    def begin(self, protocol: asyncio.BaseProtocol, context: Context) -> None:
        self._protocol, self._context = protocol, context
        protocol.connection_made(self)
        self._wake()

    def is_accepted(self, factory: Factory, context: Context) -> None:
        """By the process that listens, unless it has died since."""
        if not self.is_lost:
            self.begin(factory(), context)

    @property
    def is_open(self) -> bool:
        """Whether a protocol has it, and was not told that it is lost."""
        return self._protocol is not None and not self.is_lost

    # --- what the product uses ----------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        self._unsent.append((self._kind_of(data), bytes(data)))
        self._unsent_bytes += len(data)
        self._send()
        if self._unsent_bytes > self._high and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._wake()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        found: asyncio.BaseProtocol = self._protocol
        return found

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self._soon(self._lose, None)

    def abort(self) -> None:
        self._is_closing = True
        self._unsent.clear()
        self._soon(self._lose, None)

    # --- sending --------------------------------------------------------------------------------

    def _kind_of(self, data: Any) -> str:
        if len(data) < HEADER.size:
            return "bytes"
        try:
            kind = FrameKind(HEADER.unpack_from(data)[2])
        except ValueError:
            return "bytes"
        name = KINDS.get(kind, kind.name.lower())
        return f"{name} reply" if self is self.wire.far and kind in KINDS and name != "ack" else name

    def _send(self) -> None:
        while self._unsent and self._under_way < KERNEL_BYTES_MAX:
            kind, data = self._unsent.popleft()
            if len(data) > 1 and self._site.happens(SPLIT_SHARE, "split", self._here, self._there):
                at = 1 + self._site.world.stream("split at", self._here, self._there).below(len(data) - 1)
                self._unsent.appendleft((kind, data[at:]))
                data = data[:at]
            self._unsent_bytes -= len(data)
            self._under_way += len(data)
            self._pipe.send(kind, lambda data=data: self.peer._arrived(data))  # type: ignore[misc]
        if self._is_paused and self._unsent_bytes <= self._high // 4:
            self._is_paused = False
            self._soon(self._resume_writing)
        if self._is_closing and not self._unsent:
            self._soon(self._lose, None)

    def _resume_writing(self) -> None:
        if not self.is_lost and not self._is_paused:
            self._protocol.resume_writing()

    def _was_read(self, count: int) -> None:
        """The other end's process took so much."""
        self._under_way -= count
        if not self.is_lost:
            self._send()

    # --- receiving ------------------------------------------------------------------------------

    def _arrived(self, data: bytes) -> None:
        if self.is_lost:  # nobody is here any more, and the kernel says so
            self._pipe.send("reset", self.peer.is_reset)
            return
        self._received.append(data)
        self._wake()

    def _wake(self) -> None:
        if not self._is_woken and (self._received or self._has_eof):
            self._is_woken = True
            self._deliver(lambda: self._soon(self._readable))

    def _readable(self) -> None:
        self._is_woken = False
        if self._is_closing or not self._is_reading or self._protocol is None:
            return
        if self._received:
            self._read_some()
            self._wake()
        elif self._has_eof:
            self._has_eof = False
            if not self._protocol.eof_received():
                self.close()

    def _read_some(self) -> None:
        is_buffered = isinstance(self._protocol, asyncio.BufferedProtocol)
        room = self._protocol.get_buffer(-1) if is_buffered else bytearray(READ_BYTES_MAX)
        count = 0
        while self._received and count < len(room):
            data = self._received.popleft()
            taken = min(len(data), len(room) - count)
            room[count : count + taken] = data[:taken]
            count += taken
            if taken < len(data):
                self._received.appendleft(data[taken:])
        self._site.world.after(self._site.pace_seconds, lambda: self.peer._was_read(count))
        if is_buffered:
            self._protocol.buffer_updated(count)
        else:
            self._protocol.data_received(bytes(room[:count]))

    # --- its end --------------------------------------------------------------------------------

    def is_reset(self) -> None:
        """The connection is gone; what was received and not read is gone with it."""
        if not self.is_lost:
            self._received.clear()
            self._is_closing = True
            self._deliver(
                lambda: self._soon(self._lose, ConnectionResetError(104, "Connection reset by peer"))
            )

    def has_ended(self) -> None:
        """The other end sends nothing more."""
        self._has_eof = True
        self._wake()

    def die(self, *, tells: bool = False) -> None:
        """With its process: the kernel closes it, and nobody here is told, unless the process is being unwound."""
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self._end()
            if tells and self._protocol is not None:
                self._soon(self._protocol.connection_lost, None)

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._end()
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def _end(self) -> None:
        self._pipe.send("end", self.peer.is_reset if self._received else self.peer.has_ended)
        self._received.clear()
        self._unsent.clear()

    def _soon(self, callback: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon(callback, *arguments, context=self._context)


class Sockets:
    """Opens connections; `opened` are all there ever were."""

    def __init__(self, site: Site) -> None:
        self.opened: list[Wire] = []
        self._site = site

    async def connect(self, client: str, host: Host, protocol: Factory) -> Wire:
        """As `loop.create_connection`, to a host by its name. Raises OSError."""
        site, wire = self._site, Wire(self._site, client, host)
        self.opened.append(wire)
        established: asyncio.Future[None] = site.loop.create_future()

        def answer(error: OSError | None) -> None:
            delay = site.delay("connected", host.name, client)
            if delay is not None:
                site.world.after(delay, lambda: decide(established, error))

        def arrive() -> None:
            if not host.is_up:
                answer(ConnectionRefusedError(111, "Connect call failed"))
                return
            answer(None)
            factory, context = host.accept()
            host.keep(wire.far)
            site.loop.call_soon(wire.far.is_accepted, factory, context, context=context)

        delay = site.delay("connect", client, host.name)
        if delay is not None:
            site.world.after(delay, lambda: host.deliver(arrive))
        try:
            await established
        except BaseException:
            wire.near.die()
            raise
        if (process := PROCESS.get()) is not None:
            process.at_death.append(wire.near.die)
        wire.near.begin(protocol(), copy_context())
        return wire


def _at_once(event: Callable[[], None]) -> None:
    event()
