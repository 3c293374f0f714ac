"""What `bookie.serving.listener` listens with: gRPC's server, and the port of the data protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc

from tests.simulation.engine.processes import Process

from .channels import Aborted


class VirtualServer:
    """gRPC's of one process. `is_up` while it takes calls."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._handlers: list[Any] = []
        self._is_started = False
        self._under_way: dict[asyncio.Task[Any], None] = {}

    # --- what the product uses ------------------------------------------------------------------

    def add_generic_rpc_handlers(self, handlers: tuple[Any, ...]) -> None:
        self._handlers.extend(handlers)

    def add_insecure_port(self, address: str) -> None:
        assert address.startswith("unix-abstract:")

    async def start(self) -> None:
        self._is_started = True

    async def stop(self, grace: float | None) -> None:
        """No new calls; those under way may go on for so long, and are cancelled then."""
        self._is_started = False
        if self._under_way and grace:
            await asyncio.wait(self._under_way, timeout=grace)
        self.cut()
        if self._under_way:
            await asyncio.wait(self._under_way)

    # --- what the network uses ------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._is_started and not self._process.is_dead

    @property
    def calls(self) -> int:
        return len(self._under_way)

    def cut(self) -> None:
        """Ends all calls: as cancelled here, as broken there."""
        for task in list(self._under_way):
            task.cancel()

    def serve(self, method: str, data: bytes) -> asyncio.Task[bytes]:
        details: Any = SimpleNamespace(method=method)
        handler = next(found for one in self._handlers if (found := one.service(details)) is not None)

        async def work() -> bytes:
            if handler.unary_unary is None:  # of a kind that only aborts
                await handler.stream_stream(None, _Context())
            reply = await handler.unary_unary(data, _Context())
            return bytes(handler.response_serializer(reply))

        task = self._process.start(work())
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done, None))
        return task


class _Context:
    """What a handler may ask of its call."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)

    def peer(self) -> str:
        return "unix:"


class VirtualPort:
    """A socket that is bound, and listens once it is told whose protocol serves. `is_open` while connections come."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.protocol: Callable[[], asyncio.BaseProtocol] | None = None

    @property
    def is_open(self) -> bool:
        return self.protocol is not None

    def getsockname(self) -> tuple[str, int]:
        return "", self._port

    def close(self) -> None:
        self.protocol = None
