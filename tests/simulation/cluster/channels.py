"""gRPC's client side as maintenance uses it, over the simulated network: channels with calls of one answer.

Kept as in grpc.aio: a call that fails raises AioRpcError; one whose channel is closed is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import grpc
import grpc.aio

from tests.simulation.shells.site import Site, decide

KIND = "maintain"


class Aborted(Exception):
    """The server ended a call with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class Host(Protocol):
    """The other end: a bookie's process."""

    name: str

    @property
    def is_up(self) -> bool: ...

    def serve(self, method: str, data: bytes) -> asyncio.Task[bytes]: ...


class VirtualChannel:
    """A channel from one client to one bookie."""

    def __init__(self, site: Site, client: str, host: Host) -> None:
        self.site = site
        self.client = client
        self.host = host
        self._calls: dict[_Call, None] = {}

    async def __aenter__(self) -> VirtualChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        for call in list(self._calls):
            call.answer.cancel()
            call.let_go()

    def unary_unary(self, method: str) -> Callable[..., Coroutine[Any, Any, bytes]]:
        async def call(data: bytes, *, timeout: float) -> bytes:
            made = _Call(self, method, data, timeout)
            self._calls[made] = None
            try:
                return await made.answer
            finally:
                self._calls.pop(made, None)
                made.let_go()

        return call


class _Call:
    """One request and its answer. A request on its way arrives even when its caller has given up."""

    def __init__(self, channel: VirtualChannel, method: str, data: bytes, timeout: float) -> None:
        self._channel = channel
        self._site = channel.site
        self._method = method
        self._data = data
        self._task: asyncio.Task[bytes] | None = None
        self.answer: asyncio.Future[bytes] = self._site.loop.create_future()
        self._deadline = self._site.loop.call_later(
            timeout, self._fail, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"
        )
        self._travel(KIND, channel.client, channel.host.name, self._arrive)

    def let_go(self) -> None:
        """The caller has its answer, or wants none any more; the bookie hears of that a little later."""
        self._deadline.cancel()
        if self._task is not None and not self._task.done():
            self._site.world.after(self._site.pace_seconds, self._task.cancel)  # type: ignore[arg-type]

    def _arrive(self) -> None:
        host = self._channel.host
        if not host.is_up:
            self._fail(grpc.StatusCode.UNAVAILABLE, "connection refused")
            return
        self._task = host.serve(self._method, self._data)
        self._task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[bytes]) -> None:
        if task.cancelled():  # the bookie crashed, or the caller has given up
            self._fail(grpc.StatusCode.UNAVAILABLE, "connection reset")
            return
        error = task.exception()
        if isinstance(error, Aborted):
            self._fail(error.code, str(error))
        elif error is not None:
            raise error
        else:
            names = (f"{KIND} reply", self._channel.host.name, self._channel.client)
            self._travel(*names, lambda: decide(self.answer, task.result()))

    def _travel(self, kind: str, source: str, target: str, then: Callable[[], None]) -> None:
        """What is lost is never answered: its deadline ends the call."""
        delay = self._site.delay(kind, source, target)
        if delay is not None:
            self._site.world.after(delay, then)

    def _fail(self, code: grpc.StatusCode, details: str) -> None:
        empty = grpc.aio.Metadata()
        decide(self.answer, grpc.aio.AioRpcError(code, empty, empty, details))
