"""A bookie's port: bound before its log is touched, and what answers there until the bookie can serve.

A bound port and a registered name together keep a second process of the same bookie away, so both
are had before the log is read, which can take a minute. Whoever calls meanwhile is told so at once: a
writer that asks for a sign of life takes another bookie instead of waiting.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from ..config import BookieConfig
from ..errors import BookieError
from ..storage.bookie import Bookie
from ..wire import rpc
from .service import BookieService

STARTING = "the bookie is starting: it reads its log"

STOP_SECONDS_MAX = 10.0
"""How long open calls may take to end when the bookie stops."""


class Listener:
    """One bookie's gRPC server. Every call is UNAVAILABLE until `serve` names what serves it."""

    def __init__(self, config: BookieConfig) -> None:
        """Binds the port. Raises BookieError where that cannot be done, saying why."""
        self._server = grpc.aio.server(options=rpc.SERVER_OPTIONS)
        self._gate = _Gate()
        self._server.add_generic_rpc_handlers((self._gate,))
        self._bookie: Bookie | None = None
        self._service: BookieService | None = None
        self.address = f"{config.advertised_host or config.host}:{_bind(self._server, config)}"
        """What clients reach this bookie by."""

    async def start(self) -> None:
        await self._server.start()

    def serve(self, bookie: Bookie, service: BookieService) -> None:
        """From now on calls reach the bookie."""
        self._bookie, self._service = bookie, service
        self._gate.handlers = service.handlers()

    async def stop(self) -> None:
        """Answers what was accepted, takes nothing more, and gives the port back."""
        if self._service is not None:
            self._service.stop()
        # After a failed log nothing that waits will be answered: end at once (B1).
        may_answer = self._bookie is not None and not self._bookie.failed.done()
        await self._server.stop(STOP_SECONDS_MAX if may_answer else 0)


class _Gate(grpc.GenericRpcHandler):
    """Finds the handler of a call: the bookie's, once there is one."""

    handlers: grpc.GenericRpcHandler | None = None

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        if self.handlers is None:
            return grpc.stream_stream_rpc_method_handler(_is_starting)  # fits unary calls as well
        return self.handlers.service(handler_call_details)


async def _is_starting(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, STARTING)


def _bind(server: grpc.aio.Server, config: BookieConfig) -> int:
    address = f"{config.host}:{config.port}"
    try:
        # gRPC only says that it failed; a plain socket says why.
        with socket.create_server((config.host, config.port)):
            pass
        return server.add_insecure_port(address)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BookieError(
            f"cannot listen on {address}: {why}; choose another with --host or --port"
        ) from error
