"""What a channel, its calls and a bookie's process know of each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import grpc.aio

from bookie.wire import rpc

from .site import Site

RESET_SHARE = 0.5
"""Share of broken connections that are reset soon; the others are noticed by keepalive or not at all."""

KINDS = {
    rpc.APPEND: "add",
    rpc.READ: "read",
    rpc.LAST_ADD_CONFIRMED: "lac",
    rpc.INFO: "info",
    rpc.HOLDINGS: "holdings",
    rpc.MAINTAIN: "maintain",
}

Metadata = tuple[tuple[str, str | bytes], ...]


class ServerStream(Protocol):
    """What a bookie is given of a stream it serves."""

    @property
    def is_at_end(self) -> bool:
        """Whether the client has said its last, and all of it was taken."""
        ...

    def take(self) -> bytes | None: ...
    async def wait(self) -> None: ...
    def send(self, data: bytes) -> None: ...
    def send_metadata(self, metadata: Metadata) -> None: ...


class Host(Protocol):
    """The other end: a bookie's process."""

    name: str

    @property
    def is_up(self) -> bool: ...

    def deliver(self, event: Callable[[], None]) -> None:
        """The event reaches the process: now, or after its pause."""
        ...

    def serve(self, method: str, data: bytes) -> asyncio.Task[bytes]: ...
    def serve_stream(self, method: str, stream: ServerStream) -> asyncio.Task[None]: ...


class Aborted(Exception):
    """The server ended a call with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


def rpc_error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Call(Protocol):
    """A call that is under way."""

    @property
    def ended(self) -> asyncio.Future[Any]: ...

    def cancel(self) -> object: ...


class Connection:
    """From one client to one bookie, with the calls that are under way on it."""

    def __init__(self, site: Site, client: str, host: Host) -> None:
        self.site = site
        self.client = client
        self.host = host
        self.calls: dict[Call, None] = {}

    def is_reset(self) -> bool:
        """Whether a broken connection is noticed soon."""
        return self.site.happens(RESET_SHARE, "reset", self.client, self.host.name)
