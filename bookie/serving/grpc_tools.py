"""Standard gRPC services: health checks (grpc.health.v1) and server reflection.

Both serve probes and people, so calls are kept short: a health check gives a single answer, and a reflection call is
bounded. Health watches are not supported, because each watcher would keep a call open forever; probes repeat the check
instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from metadata.audit import Act

from ..wire import grpc_methods
from ..wire.trust.identity import Peer
from ..wire.trust.roles import METHODS

REFLECTIONS_MAX = 4
"""Limit on concurrent reflection calls."""

REFLECTION_REQUESTS_MAX = 100
REFLECTION_SECONDS_MAX = 10.0
"""Limits on one reflection call: a tool sends only a handful of requests, all at once."""

NO_WATCH = "health watches are not supported: call Check repeatedly"

Context = grpc.aio.ServicerContext[Any, Any]


class GrpcTools:
    """Health and reflection of one bookie. `why_not_ready` returns the reason why clients should not use the bookie, or
    "" if they may use it."""

    def __init__(self, who_is: Callable[[str], Peer], why_not_ready: Callable[[], str]) -> None:
        self._who_is = who_is
        self._why_not_ready = why_not_ready
        self._reflection: Any = ReflectionServicer(
            (grpc_methods.SERVICE, grpc_methods.HEALTH_SERVICE, grpc_methods.REFLECTION_SERVICE)
        )
        self._reflections = 0

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Returns the handlers for a gRPC server; METHODS contains the right that each of their methods requires."""
        check = grpc.unary_unary_rpc_method_handler(
            self._check, health_pb2.HealthCheckRequest.FromString, _bytes_of
        )
        watch: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(self._watch)
        reflect = grpc.stream_stream_rpc_method_handler(
            self._reflect, reflection_pb2.ServerReflectionRequest.FromString, _bytes_of
        )
        return (
            grpc.method_handlers_generic_handler(
                grpc_methods.HEALTH_SERVICE, {"Check": check, "Watch": watch}
            ),
            grpc.method_handlers_generic_handler(
                grpc_methods.REFLECTION_SERVICE, {"ServerReflectionInfo": reflect}
            ),
        )

    async def _check(self, request: Any, context: Context) -> Any:
        await self._check_right(grpc_methods.HEALTH, context)
        if request.service not in ("", grpc_methods.SERVICE):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this server has no service {request.service}")
        status = health_pb2.HealthCheckResponse
        return status(status=status.NOT_SERVING if self._why_not_ready() else status.SERVING)

    async def _watch(self, _: bytes, context: Context) -> AsyncIterator[bytes]:
        await self._check_right(grpc_methods.HEALTH_WATCH, context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_WATCH)
        yield b""

    async def _reflect(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        await self._check_right(grpc_methods.REFLECTION, context)
        if self._reflections >= REFLECTIONS_MAX:
            why = f"{REFLECTIONS_MAX} reflections are in progress, which is the limit: try again later"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        self._reflections += 1
        try:
            async with asyncio.timeout(REFLECTION_SECONDS_MAX):
                async for answer in self._reflection.ServerReflectionInfo(_first(requests), context):
                    yield answer
        except TimeoutError:
            why = f"a reflection ends after {REFLECTION_SECONDS_MAX:g} seconds"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, why)
        finally:
            self._reflections -= 1

    async def _check_right(self, method: str, context: Context) -> None:
        await check_right(self._who_is(context.peer()), method, context)


async def check_right(who: Peer, method: str, context: Context) -> None:
    """Aborts and audits a call if the caller does not have the right that the call requires."""
    if why := who.may_not(METHODS[method]):
        who.record_audit(Act.REFUSED, why)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)


async def _first(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Passes on at most REFLECTION_REQUESTS_MAX requests."""
    asked = 0
    async for request in requests:
        yield request
        asked += 1
        if asked == REFLECTION_REQUESTS_MAX:
            return


def _bytes_of(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
