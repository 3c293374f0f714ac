"""gRPC's client side as the product uses it, over the simulated network: channels, calls and their endings.

Kept as in grpc.aio: a call that fails raises AioRpcError; one that its own side cancels, also by closing the
channel, raises CancelledError in its caller; a closed channel takes no more calls; writing to a stream that has
ended raises InvalidStateError; a window that is full makes `write` wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import grpc.aio

from .connections import KINDS, Aborted, Connection, Host, rpc_error
from .site import Site
from .streams import StreamCall


class VirtualChannel(Connection):
    """A channel from one client to one bookie."""

    def __init__(self, site: Site, client: str, host: Host) -> None:
        super().__init__(site, client, host)
        self.is_closed = False

    def unary_unary(self, method: str) -> Callable[..., Coroutine[Any, Any, bytes]]:
        async def call(data: bytes, *, timeout: float) -> bytes:
            self._must_be_open()
            made = UnaryCall(self, method, data, timeout)
            try:
                return await made.answer
            finally:
                made.let_go()

        return call

    def stream_stream(self, method: str) -> Callable[[], StreamCall]:
        def call() -> StreamCall:
            self._must_be_open()
            return StreamCall(self, method)

        return call

    async def close(self, grace: float | None = None) -> None:
        """No new calls; those that are under way are cancelled, after `grace` seconds where it is given."""
        if self.is_closed:
            return
        self.is_closed = True
        loop = self.site.loop
        until = loop.time() + (grace or 0.0)
        while self.calls and loop.time() < until:
            ends: list[asyncio.Future[Any]] = [call.ended for call in self.calls]
            await asyncio.wait(ends, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        for call in list(self.calls):
            call.cancel()

    def _must_be_open(self) -> None:
        if self.is_closed:
            raise grpc.aio.UsageError("Channel is closed.")


class UnaryCall:
    """One request and its answer. A request on its way arrives even when its caller has given up."""

    def __init__(self, channel: Connection, method: str, data: bytes, timeout: float) -> None:
        self._channel = channel
        self._site = channel.site
        self._method = method
        self._data = data
        self._kind = KINDS[method]
        self._task: asyncio.Task[bytes] | None = None
        self.answer: asyncio.Future[bytes] = self._site.loop.create_future()
        self.ended: asyncio.Future[Any] = self.answer
        channel.calls[self] = None
        self._deadline = self._site.loop.call_later(
            timeout, self._fail, grpc.StatusCode.DEADLINE_EXCEEDED, ""
        )
        self._travel(self._kind, channel.client, channel.host.name, self._arrive)

    def cancel(self) -> None:
        self.answer.cancel()
        self.let_go()

    def let_go(self) -> None:
        """The caller has its answer, or wants none any more; the bookie hears of that a little later."""
        self._channel.calls.pop(self, None)
        self._deadline.cancel()
        if self._task is not None and not self._task.done():
            self._site.world.after(self._site.pace_seconds, self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _arrive(self) -> None:
        self._channel.host.deliver(self._serve)

    def _serve(self) -> None:
        host = self._channel.host
        if not host.is_up:
            return self._fail_later("connection refused")
        self._site.world.note("%s of %s at %s", self._kind, self._channel.client, host.name)
        self._task = host.serve(self._method, self._data)
        return self._task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[bytes]) -> None:
        if task.cancelled():  # the bookie crashed, or the caller has given up
            return self._fail_later("connection reset")
        error = task.exception()
        if isinstance(error, Aborted):
            return self._fail(error.code, str(error))
        if error is not None:
            raise error
        names = (f"{self._kind} reply", self._channel.host.name, self._channel.client)
        return self._travel(*names, lambda: self._answered(task.result()))

    def _answered(self, data: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(data)

    def _travel(self, kind: str, source: str, target: str, then: Callable[[], None]) -> None:
        delay = self._site.delay(kind, source, target)
        if delay is not None:
            self._site.world.after(delay, then)
        elif self._channel.is_reset():
            self._fail_later("connection reset")

    def _fail_later(self, details: str) -> None:
        self._site.world.after(
            self._site.pace_seconds, lambda: self._fail(grpc.StatusCode.UNAVAILABLE, details)
        )

    def _fail(self, code: grpc.StatusCode, details: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(rpc_error(code, details or "Deadline Exceeded"))
