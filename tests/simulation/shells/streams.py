"""A bidirectional stream as grpc.aio has it: two pipes, and one end of which both sides hear some time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from .connections import Aborted, Connection, Metadata, rpc_error
from .site import Pipe

UNREAD_MESSAGES_MAX = 3
"""Messages written to a stream and not read by the bookie: HTTP/2's window."""

KEEPALIVE_SECONDS = 20.0
"""How long a dead connection is not noticed when nobody resets it."""


class StreamCall:
    """A bidirectional stream: two pipes, and one end that both sides hear of sooner or later."""

    def __init__(self, channel: Connection, method: str) -> None:
        self._channel = channel
        self._site = site = channel.site
        self._method = method
        client, host = channel.client, channel.host.name
        self._there = Pipe(site, "add", client, host, self._lost)
        self._back = Pipe(site, "ack", host, client, self._lost)
        self._received: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._metadata: asyncio.Future[Metadata] = site.loop.create_future()
        self._unread = 0
        self._server: _ServerStream | None = None
        self._was_stopped = False
        self._status: tuple[grpc.StatusCode, str] = (grpc.StatusCode.OK, "")
        self.ended: asyncio.Future[None] = site.loop.create_future()
        channel.calls[self] = None
        self._there.send(lambda: channel.host.deliver(self._accept))

    # --- what the product uses ----------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        if self.done():
            raise asyncio.InvalidStateError("RPC already finished.")
        while self._unread >= UNREAD_MESSAGES_MAX and not self.done():
            self._changed.clear()
            await self._changed.wait()
        if self.done():
            self._raise_status()
        self._unread += 1
        self._there.send(lambda: self._channel.host.deliver(lambda: self._arrive(data)))
        await asyncio.sleep(0)

    async def done_writing(self) -> None:
        if not self.done():
            self._there.send(lambda: self._channel.host.deliver(self._no_more))
        await asyncio.sleep(0)

    def __aiter__(self) -> StreamCall:
        return self

    async def __anext__(self) -> bytes:
        while not self._received and not self.done():
            self._changed.clear()
            await self._changed.wait()
        if self._received:
            return self._received.popleft()
        self._raise_status()
        raise StopAsyncIteration

    async def initial_metadata(self) -> Metadata:
        either: list[asyncio.Future[Any]] = [self._metadata, self.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._metadata.done():
            return self._metadata.result()
        self._raise_status()
        return ()

    def cancel(self) -> bool:
        if self.done():
            return False
        self._end(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        self._there.send(lambda: self._channel.host.deliver(self._stop_server))
        return True

    def done(self) -> bool:
        return self.ended.done()

    async def code(self) -> grpc.StatusCode:
        await asyncio.wait([self.ended])
        return self._status[0]

    async def details(self) -> str:
        await asyncio.wait([self.ended])
        return self._status[1]

    def _raise_status(self) -> None:
        code, details = self._status
        if code is grpc.StatusCode.CANCELLED:
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            raise rpc_error(code, details)

    # --- the bookie's end -----------------------------------------------------------------------

    def _accept(self) -> None:
        host = self._channel.host
        if self._was_stopped or (self._there.is_broken and self._back.is_broken):
            return (
                None  # on its way when it was given up; two pauses in a row may turn the order of what waits
            )
        if not host.is_up:
            return self._tell_end(grpc.StatusCode.UNAVAILABLE, "connection refused")
        self._server = _ServerStream(self)
        self._server.task = host.serve_stream(self._method, self._server)
        return self._server.task.add_done_callback(self._served)

    def _arrive(self, data: bytes) -> None:
        host = self._channel.host
        if self._server is not None and not self._server.has_ended:
            self._site.world.note("add of %s at %s, %s bytes", self._channel.client, host.name, len(data))
            self._server.put(data)

    def _no_more(self) -> None:
        if self._server is not None and not self._server.has_ended:
            self._server.no_more()

    def _served(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return self._tell_end(grpc.StatusCode.UNAVAILABLE, "connection reset")
        error = task.exception()
        if isinstance(error, Aborted):
            return self._tell_end(error.code, str(error))
        if error is not None:
            raise error
        return self._tell_end(grpc.StatusCode.OK, "")

    def _stop_server(self) -> None:
        self._was_stopped = True
        if self._server is not None and self._server.task is not None:
            self._server.task.cancel()

    def was_read(self) -> None:
        """The bookie took a message: there is room for another, as the client will know in a moment."""
        self._site.world.after(self._site.pace_seconds, self._has_room)

    def _has_room(self) -> None:
        self._unread -= 1
        self._changed.set()

    def send_back(self, event: Callable[[], None]) -> None:
        self._back.send(event)

    def received(self, data: bytes) -> None:
        self.metadata_came(())
        if not self.done():
            self._received.append(data)
            self._changed.set()

    def metadata_came(self, metadata: Metadata) -> None:
        if not self._metadata.done():
            self._metadata.set_result(metadata)

    # --- how it ends ------------------------------------------------------------------------------

    def _tell_end(self, code: grpc.StatusCode, details: str) -> None:
        self._back.send(lambda: self._end(code, details))

    def _end(self, code: grpc.StatusCode, details: str) -> None:
        if not self.done():
            self._status = (code, details)
            self._channel.calls.pop(self, None)
            self.ended.set_result(None)
            self._changed.set()

    def _lost(self) -> None:
        """A message is lost, so the connection is dead; both ends notice at some time."""
        soon = self._channel.is_reset()
        self._site.world.after(self._site.pace_seconds if soon else KEEPALIVE_SECONDS, self._break)

    def _break(self) -> None:
        self._there.is_broken = self._back.is_broken = True
        self._end(grpc.StatusCode.UNAVAILABLE, "connection reset")
        self._stop_server()


class _ServerStream:
    """See ServerStream."""

    def __init__(self, call: StreamCall) -> None:
        self._call = call
        self._messages: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._has_all = False
        self.task: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        return self.task is not None and self.task.done()

    def put(self, data: bytes) -> None:
        self._messages.append(data)
        self._changed.set()

    def no_more(self) -> None:
        self._has_all = True
        self._changed.set()

    @property
    def is_at_end(self) -> bool:
        return self._has_all and not self._messages

    def take(self) -> bytes | None:
        if not self._messages:
            return None
        self._call.was_read()
        return self._messages.popleft()

    async def wait(self) -> None:
        if not self._messages and not self._has_all:
            self._changed.clear()
            await self._changed.wait()

    def send(self, data: bytes) -> None:
        self._call.send_back(lambda: self._call.received(data))

    def send_metadata(self, metadata: Metadata) -> None:
        self._call.send_back(lambda: self._call.metadata_came(metadata))
