"""An etcd that does what a test says at every message: real gRPC, real messages, and no store behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import grpc
import grpc.aio

from metadata.etcd import etcd_pb2 as pb

Change = tuple[pb.Event, ...]
"""All events of one revision."""


class Break(Enum):
    """How a stream ends."""

    UNAVAILABLE = "the member goes away"
    INTERNAL = "the transport fails"
    ENDED = "the stream just ends"
    CANCELED = "etcd cancels the watch"


def _nothing_there(method: str, request: bytes) -> pb.RangeResponse | pb.TxnResponse:
    if not method.endswith("/Txn"):
        return pb.RangeResponse()
    return pb.TxnResponse(succeeded=True, responses=[pb.ResponseOp(response_range=pb.RangeResponse())])


@dataclass
class FakeEtcd:
    """Serves watches of its history, and answers other calls with `answer`.

    `history` are the changes of revisions 2, 3, …; those past `seen_at_start` happen while a watch stands. The
    stream breaks in place of message number `break_at`, counted over all streams, or right behind it.
    """

    history: list[Change]
    seen_at_start: int = 0
    break_at: int | None = None
    breaks: Break = Break.UNAVAILABLE
    is_sent: bool = False
    answer: Callable[[str, bytes], Any] = _nothing_there
    messages: int = 0
    streams: int = 0
    refusal: tuple[grpc.StatusCode, str] | None = None
    refusals_max: int | None = None
    calls: list[str] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its endpoint, inside the block."""
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((_Handlers(self),))
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{self.port}"
        finally:
            await server.stop(None)

    @property
    def revision(self) -> int:
        return 1 + self.seen_at_start

    async def call(self, method: str, request: bytes, context: Any) -> bytes:
        self.calls.append(method)
        is_refused = self.refusals_max is None or len(self.calls) <= self.refusals_max
        if self.refusal is not None and is_refused:
            await context.abort(*self.refusal)
        reply = self.answer(method, request)
        if hasattr(reply, "header"):
            reply.header.revision = self.revision
        data: bytes = reply.SerializeToString()
        return data

    async def watch(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        self.streams += 1
        wanted = pb.WatchRequest.FromString(await anext(aiter(requests))).create_request
        async for reply in self._replies(wanted):
            reply.header.revision = max(reply.header.revision, self.revision)
            breaks = self.messages == self.break_at
            self.messages += 1
            if not breaks or self.is_sent:
                yield reply.SerializeToString()
            if breaks:
                if self.breaks is Break.CANCELED:
                    yield pb.WatchResponse(canceled=True, cancel_reason="no leader").SerializeToString()
                elif self.breaks is Break.UNAVAILABLE:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: stopped")
                elif self.breaks is Break.INTERNAL:
                    await context.abort(grpc.StatusCode.INTERNAL, "stream terminated by RST_STREAM")
                return
        await asyncio.Event().wait()

    async def _replies(self, wanted: pb.WatchCreateRequest) -> AsyncIterator[pb.WatchResponse]:
        """A header may be ahead of the events: it tells of the store, not of the watch."""
        yield pb.WatchResponse(created=True)
        next_revision = wanted.start_revision
        while next_revision <= len(self.history) + 1:
            if next_revision > self.revision:
                self.seen_at_start += 1
            events = [e for e in self.history[next_revision - 2] if _is_in(e.kv.key, wanted)]
            if events:
                yield pb.WatchResponse(events=events)
            elif next_revision == self.revision:  # caught up, and told so
                yield pb.WatchResponse()
            next_revision += 1


def _is_in(key: bytes, wanted: pb.WatchCreateRequest) -> bool:
    return wanted.key <= key < wanted.range_end


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, etcd: FakeEtcd) -> None:
        self._etcd = etcd

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        method = handler_call_details.method
        if method.endswith("/Watch"):
            return grpc.stream_stream_rpc_method_handler(self._etcd.watch)

        async def answered(request: bytes, context: Any) -> bytes:
            return await self._etcd.call(method, request, context)

        return grpc.unary_unary_rpc_method_handler(answered)
