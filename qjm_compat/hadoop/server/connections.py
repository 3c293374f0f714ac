"""The RPC server: Hadoop's IPC connections, with their frames, time limits and back-pressure. The connections hold no
writer state."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from google.protobuf.message import DecodeError

from bookie.wire.connection_table import ClientConnection, ConnectionTable, Places, address_of
from bookie.wire.data import sockets

from ..errors import BadRpcFrame
from ..node_limits import NodeLimits
from ..wire import hadoop_pb2 as pb
from ..wire.hadoop_rpc import (
    CONTEXT_CALL,
    DETAIL_DESERIALIZING,
    DETAIL_INVALID_HEADER,
    DETAIL_UNKNOWN,
    DETAIL_VERSION,
    PING_CALL,
    SASL_CALL,
    Call,
    call_in,
    fatal,
    old_version_refusal,
    sasl_not_needed,
)
from ..wire.methods import METHODS
from ..wire.rpc_framing import (
    FRAME_BYTES_MAX,
    IPC_VERSION,
    MAGIC,
    PREAMBLE_BYTES,
    SASL,
    SIMPLE,
    RpcFrameReader,
)
from .call_dispatcher import CallDispatcher
from .load_shedding import LoadShedding

STRANGER_FRAME_BYTES_MAX = 64 * 1024
"""The largest frame accepted before the connection context arrives, while the peer is not identified yet."""

STRANGERS_MAX = 256
"""Maximum number of unidentified connections. Beyond that, the oldest is closed if it has had at least a second to
identify itself."""

CALLS_A_CONNECTION_MAX = 64
"""Maximum number of calls in flight per connection. Beyond that, nothing is read from the connection until some are
answered."""

REPLIES_BYTES_MAX = 16 * 1024 * 1024
"""Maximum number of bytes of answers that one peer has not received yet. Beyond that, nothing is read from the peer
until it receives some."""

GREETING_SECONDS_MAX = 10.0
"""How long a peer may take to identify itself; stock clients do so immediately after connecting."""

FRAME_SECONDS_MAX = 60.0
"""How long a peer may take to complete a frame that it has begun: as long as stock clients wait for an answer."""

REPLY_SECONDS_MAX = 60.0
"""How long a peer may take to receive its answers: as long as stock clients wait for an answer."""

IDLE_SECONDS_MAX = 600.0
"""How long a connection may be idle; stock clients close theirs after ten idle seconds."""

LINGER_SECONDS_MAX = 1.0
"""How long a refused peer may keep its connection open after it has been sent the reason."""

ENDING_MAX = 64
"""Maximum number of peers that were refused for lack of slots and whose connections are still open. The connections of
further refused peers are closed immediately, so these peers may not receive the reason."""

LOOK_SECONDS = 1.0
"""How often time limits are checked."""

HTTP_ANSWER = (
    b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n"
    b"It looks like you are making an HTTP request to a Hadoop IPC port. "
    b"This is not the correct port for the web interface on this daemon.\r\n"
)

log = logging.getLogger(__name__)


class RpcServer:
    """Serves all connections of one port."""

    def __init__(self, calls: CallDispatcher, limits: NodeLimits | None = None) -> None:
        self.limits = limits or NodeLimits()
        self.calls = calls
        self.connections: set[PeerConnection] = set()
        self.ending: set[PeerConnection] = set()
        """Refused connections that have been sent the reason and are not closed yet."""
        self.load = LoadShedding(self.limits)
        places = Places.shared(
            self.limits.peer_share,
            connections_max=self.limits.connections_max,
            strangers_max=STRANGERS_MAX,
            busy_go=True,
        )
        self.table = ConnectionTable(places)

    @asynccontextmanager
    async def serving(self, bound: socket.socket) -> AsyncIterator[None]:
        """Accepts and serves connections inside the block."""
        listening = await sockets.listen(bound, lambda: PeerConnection(self))
        looking = asyncio.create_task(self._look_after_all())
        try:
            yield
        finally:
            await sockets.stop_listening(listening)
            looking.cancel()
            await asyncio.wait([looking])
            await self.calls.close()
            for connection in [*self.connections, *self.ending]:
                connection.cut("this JournalNode is shutting down")

    async def _look_after_all(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in [*self.connections, *self.ending]:
                connection.look(now)


class PeerConnection(asyncio.Protocol):
    """One peer's connection: handshake, context, then calls. Sends replies as soon as they are ready, in any order."""

    def __init__(self, server: RpcServer) -> None:
        self.frames = RpcFrameReader(STRANGER_FRAME_BYTES_MAX)
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._visitor: ClientConnection | None = None
        self._is_greeted = self._has_context = self._is_reading_paused = self._is_over = False
        self._waiting: deque[tuple[Call, int, float]] = deque()
        self._is_beginning = False
        self._under_way = self._called_bytes = self._waiting_bytes = 0
        now = asyncio.get_running_loop().time()
        self._began = self._heard = now
        self._frame_began: float | None = None
        self._ended: float | None = None
        self._writing_paused_at: float | None = None

    # --- events of the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transport is not an instance of asyncio.Transport
        visitor = self._server.table.enter(address_of(transport), self.cut)
        if isinstance(visitor, str):
            self.refuse(f"{visitor}: try again later")
            return
        self._visitor = visitor
        self._server.connections.add(self)
        self._transport.set_write_buffer_limits(high=REPLIES_BYTES_MAX)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 — asyncio's argument
        self._is_over = True
        self._server.connections.discard(self)
        self._server.ending.discard(self)
        if self._visitor is not None:
            self._server.table.leave(self._visitor)

    def pause_writing(self) -> None:
        self._writing_paused_at = asyncio.get_running_loop().time()
        self._pause_or_resume()

    def resume_writing(self) -> None:
        self._writing_paused_at = None
        self._begin_waiting()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        now = self._heard = asyncio.get_running_loop().time()
        try:
            self._take(data)
        except BadRpcFrame as error:
            self._end(fatal(str(error), DETAIL_INVALID_HEADER), str(error))
        if not self.frames.buffered_bytes:
            self._frame_began = None
        elif self._frame_began is None or len(data) > self.frames.buffered_bytes:
            self._frame_began = now

    # --- bounds -------------------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self.frames.buffered_bytes + self._waiting_bytes + unsent

    @property
    def called_bytes(self) -> int:
        return self._called_bytes

    def _relieve(self) -> None:
        """Enforces the memory limit. Skips the check if this connection holds little, so that a flood of small calls
        does not cause a check for each call."""
        if self.held_bytes + self._called_bytes > STRANGER_FRAME_BYTES_MAX:
            self._server.load.relieve(self._server.connections)

    def look(self, now: float) -> None:
        """Disconnects a peer that exceeds a time limit. Starts calls that were waiting for other connections' calls to
        end."""
        if self._ended is not None:
            if now - self._ended > LINGER_SECONDS_MAX:
                self.cut("it did not close after the last answer")
        elif not self._has_context and now - self._began > GREETING_SECONDS_MAX:
            self.cut("it did not identify itself")
        elif self._frame_began is not None and now - self._frame_began > FRAME_SECONDS_MAX:
            self.cut("it did not complete a frame")
        elif self._writing_paused_at is not None and now - self._writing_paused_at > REPLY_SECONDS_MAX:
            self.cut("it did not receive its answers")
        elif not self._under_way and now - self._heard > IDLE_SECONDS_MAX:
            self.cut("it was silent for too long")
        elif self._waiting:
            self._begin_waiting()

    def cut(self, why: str) -> None:
        """Aborts the connection without sending anything."""
        self._is_over = True
        if self._transport is not None:
            peer = address_of(self._transport)
            log.debug("aborted the connection from %s: %s", peer, why, extra={"peer": peer})
            self._transport.abort()

    def refuse(self, why: str) -> None:
        """Closes the connection, and sends the reason if the peer can receive it at once."""
        self._end(fatal(why, DETAIL_UNKNOWN), why)
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._transport.abort()

    def _end(self, last_words: bytes, why: str) -> None:
        self._is_over = True
        if self._transport is not None:
            peer = address_of(self._transport)
            log.info("closing the connection from %s: %s", peer, why, extra={"peer": peer})
            self._transport.write(last_words)
            self._linger(self._transport)

    def _linger(self, transport: asyncio.Transport) -> None:
        """Closes the connection once the peer has closed its side, and drops all input until then. If the connection
        were closed with unread input, the kernel would reset it, and the peer would not receive the last answer."""
        has_no_place = self._visitor is None and len(self._server.ending) >= ENDING_MAX
        if has_no_place or transport.is_closing():
            transport.close()
            return
        self._ended = asyncio.get_running_loop().time()
        self.frames = RpcFrameReader(STRANGER_FRAME_BYTES_MAX)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._server.connections.discard(self)
        self._server.ending.add(self)
        transport.write_eof()
        if self._is_reading_paused:
            transport.resume_reading()

    def _pause_or_resume(self) -> None:
        assert self._transport is not None
        must_wait = bool(self._waiting) or not self._has_room()
        if self._is_over or must_wait == self._is_reading_paused:
            return
        self._is_reading_paused = must_wait
        if must_wait:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- input from the peer ------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        if not self._is_greeted:
            self.frames.put(data)
            data = b""
            if not self._greet():
                return
        for frame in self.frames.feed(data):
            if self._is_over:
                return
            self._heard_frame(call_in(frame), len(frame))
        self._relieve()
        self._begin_waiting()

    def _greet(self) -> bool:
        """Checks the first bytes of a connection. Returns whether they have all arrived and are valid."""
        if self.frames.buffered_bytes < PREAMBLE_BYTES:
            return False
        preamble = self.frames.take(PREAMBLE_BYTES) or b""
        version, authentication = preamble[4], preamble[6]
        if preamble.startswith(b"GET "):
            self._end(HTTP_ANSWER, "it speaks HTTP")
        elif not preamble.startswith(MAGIC):
            self.cut("it does not speak Hadoop's IPC")
        elif version < IPC_VERSION:
            self._end(old_version_refusal(version), f"it uses version {version}")
        elif version > IPC_VERSION:
            why = f"Server IPC version {IPC_VERSION} cannot communicate with client version {version}"
            self._end(fatal(why, DETAIL_VERSION), why)
        elif authentication not in (SIMPLE, SASL):
            self.cut(f"authentication {authentication} is unknown to Hadoop")
        self._is_greeted = True
        return not self._is_over

    def _heard_frame(self, call: Call, size_bytes: int) -> None:
        if call.is_call and self._has_context:
            self._waiting.append((call, size_bytes, self._heard))
            self._waiting_bytes += size_bytes
        elif call.caller.call_id == CONTEXT_CALL:
            self._take_context(call)
        elif call.caller.call_id == SASL_CALL and not self._has_context:
            self._send(sasl_not_needed())
        elif call.caller.call_id != PING_CALL or not self._has_context:
            raise BadRpcFrame(f"Unknown out of band call #{call.caller.call_id}")

    def _take_context(self, call: Call) -> None:
        context = pb.ConnectionContext()
        try:
            context.ParseFromString(call.parts[0] if call.parts else b"")
        except DecodeError as error:
            self._end(
                fatal(f"the context cannot be decoded: {error}", DETAIL_DESERIALIZING), "invalid context"
            )
            return
        if context.protocol not in METHODS:
            why = f"Unknown protocol: {context.protocol[:200]}"
            self._end(fatal(why, DETAIL_DESERIALIZING), why)
            return
        self._has_context = True
        if self._visitor is not None:
            self._server.table.is_known(self._visitor, lambda: not self._under_way and not self._waiting)
        self.frames.size_max = FRAME_BYTES_MAX

    # --- calls ----------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self._writing_paused_at is None and self._under_way < CALLS_A_CONNECTION_MAX

    def _begin_waiting(self) -> None:
        """Starts as many waiting calls as the limits allow, in order of arrival."""
        if self._is_beginning:  # a call that is answered immediately re-enters this method
            return
        self._is_beginning = True
        try:
            while self._waiting and not self._is_over and self._has_room():
                if not self._server.load.may_begin(self._under_way):
                    break
                self._begin(*self._waiting.popleft())
        except BadRpcFrame as error:
            self._end(fatal(str(error), DETAIL_INVALID_HEADER), str(error))
        finally:
            self._is_beginning = False
        self._pause_or_resume()

    def _begin(self, call: Call, size_bytes: int, came_at: float) -> None:
        self._waiting_bytes -= size_bytes
        self._count(1, size_bytes)
        try:
            queued_seconds = asyncio.get_running_loop().time() - came_at
            self._server.calls.begin(call, partial(self._reply, size_bytes), queued_seconds)
        except BadRpcFrame:
            self._count(-1, -size_bytes)
            raise

    def _count(self, calls: int, size_bytes: int) -> None:
        self._under_way += calls
        self._called_bytes += size_bytes
        self._server.load.count(calls, size_bytes)

    def _reply(self, size_bytes: int, frame: bytes) -> None:
        self._count(-1, -size_bytes)
        self._heard = asyncio.get_running_loop().time()
        self._send(frame)
        if not self._is_over:
            self._begin_waiting()

    def _send(self, frame: bytes) -> None:
        if not self._is_over and self._transport is not None:
            self._transport.write(frame)
            self._relieve()
