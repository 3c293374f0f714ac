"""Proxies gRPC connections to the bookie's gRPC server: copies bytes both ways, with back-pressure.

Traffic from client to server is rate-limited: gRPC clients are tools that send little, and a flood must not slow down
other clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from ...wire.data import sockets
from ..limits.admission import Rate

FULL, CONNECTING, TOO_FAST = (
    "the other end is full",
    "the other end is not connected yet",
    "the client sends too much",
)


class _End(asyncio.Protocol):
    """One of a proxy's two connections: copies received bytes to the other connection, and closes when the other one
    closes."""

    other: _End

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._holds: set[str] = set()

    def hold(self, reason: str) -> None:
        """Pauses reading until `go_on` has been called for every reason passed to `hold`."""
        if not self._holds and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self._holds.add(reason)

    def go_on(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        self.other.hold(FULL)

    def resume_writing(self) -> None:
        self.other.go_on(FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other.transport is not None:
            self.other.transport.close()


class _Inner(_End):
    """The connection to the gRPC server; calls `on_lost` when the connection is lost."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()
        super().connection_lost(exc)


class GrpcProxy(_End):
    """The client's connection. `path`: Unix socket of the gRPC server, either abstract or in the file system. Calls
    `on_lost` once, when the connection ends.

    `name`: address to which the inner connection binds, and which identifies the client to the server. `rate`: shared
    rate limit. `on_inner_lost` is called before `name` can be reused.
    """

    def __init__(
        self,
        path: str,
        name: str,
        rate: Rate,
        on_lost: Callable[[GrpcProxy], None],
        on_inner_lost: Callable[[], None],
    ) -> None:
        super().__init__()
        self._path = path
        self._name = name
        self._on_lost = on_lost
        self._connecting: asyncio.Task[None] | None = None
        self._early = b""
        self._rate = rate
        self._waits: asyncio.TimerHandle | None = None
        self.other = _Inner(on_inner_lost)
        self.other.other = self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.hold(CONNECTING)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def feed(self, data: bytes) -> None:
        """Processes bytes that arrived before this object became the connection's protocol."""
        self._early += data

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        seconds = self._rate.spend(len(data))
        if seconds and self._waits is None:
            self.hold(TOO_FAST)
            self._waits = asyncio.get_running_loop().call_later(seconds, self._may_go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._connecting is not None:
            self._connecting.cancel()
        if self.other.transport is None:  # the inner connection was never established
            self.other.connection_lost(None)
        if self._waits is not None:
            self._waits.cancel()
        self._on_lost(self)

    def abort(self, why: str = "") -> None:
        """Cuts the connection without giving a reason, because HTTP/2 cannot carry one."""
        del why
        if self.transport is not None:
            self.transport.abort()

    async def _connect(self) -> None:
        try:
            await sockets.connect_inside(self._path, self._name, lambda: self.other)
        except OSError:  # the server is shutting down
            self.abort()
            return
        self.data_received(self._early)
        self.go_on(CONNECTING)

    def _may_go_on(self) -> None:
        self._waits = None
        self.go_on(TOO_FAST)
