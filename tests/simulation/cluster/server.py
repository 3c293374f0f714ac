"""gRPC's server as `bookie.serving.listener` uses it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc

from tests.simulation.engine.processes import Process
from tests.simulation.shells.connections import ServerStream
from tests.simulation.shells.served import Served


class VirtualServer:
    """One process's. `is_up` while it takes calls."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._served = Served(process.start)
        self._handlers: list[Any] = []
        self._is_started = False

    # --- what the product uses ------------------------------------------------------------------

    def add_generic_rpc_handlers(self, handlers: tuple[Any, ...]) -> None:
        self._handlers.extend(handlers)

    def add_insecure_port(self, address: str) -> int:
        return int(address.rpartition(":")[2])

    async def start(self) -> None:
        self._is_started = True

    async def stop(self, grace: float | None) -> None:
        """No new calls; those under way may go on for so long, and are cancelled then."""
        self._is_started = False
        calls = list(self._served.under_way)
        if calls and grace:
            await asyncio.wait(calls, timeout=grace)
        self.cut()
        left = list(self._served.under_way)
        if left:
            await asyncio.wait(left)

    # --- what the network uses ------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._is_started and not self._process.is_dead

    @property
    def calls(self) -> int:
        return len(self._served.under_way)

    def cut(self) -> None:
        """Ends all calls: as cancelled here, as broken there."""
        for task in list(self._served.under_way):
            task.cancel()

    def serve(self, method: str, data: bytes) -> asyncio.Task[bytes]:
        handler = self._handler(method)
        if handler.unary_unary is None:
            return self._served.refused(handler)
        return self._served.one(handler, data)

    def serve_stream(self, method: str, stream: ServerStream) -> asyncio.Task[None]:
        return self._served.stream(self._handler(method), stream)

    def _handler(self, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        details: Any = SimpleNamespace(method=method)
        return next(found for one in self._handlers if (found := one.service(details)) is not None)
