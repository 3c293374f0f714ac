"""gRPC's server side as the product uses it: a handler, what it may ask of its call, and the calls under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, NoReturn, TypeVar

import grpc

from .connections import Aborted, Metadata, ServerStream

T = TypeVar("T")

StartTask = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


class Served:
    """The calls that one server has under way. What a handler aborts ends with Aborted."""

    def __init__(self, start_task: StartTask) -> None:
        self.under_way: dict[asyncio.Task[Any], None] = {}
        self._start_task = start_task

    def one(self, handler: Any, data: bytes) -> asyncio.Task[bytes]:
        """A call with one request and one answer."""

        async def work() -> bytes:
            reply = await handler.unary_unary(handler.request_deserializer(data), _Context(None))
            return bytes(handler.response_serializer(reply))

        return self._track(work())

    def stream(self, handler: Any, stream: ServerStream) -> asyncio.Task[None]:
        """A call with many of both."""

        async def messages() -> AsyncGenerator[bytes, None]:
            while not stream.is_at_end:
                await stream.wait()
                data = stream.take()
                if data is not None:
                    yield handler.request_deserializer(data)

        async def work() -> None:
            incoming = messages()
            replies = handler.stream_stream(incoming, _Context(stream))
            async with aclosing(incoming):
                if isawaitable(replies):  # a handler that only aborts
                    await replies
                    return
                async with aclosing(replies):
                    async for reply in replies:
                        stream.send(handler.response_serializer(reply))

        return self._track(work())

    def refused(self, handler: Any) -> asyncio.Task[Any]:
        """A call of any kind whose handler only aborts it."""
        return self._track(handler.stream_stream(None, _Context(None)))

    def _track(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task: asyncio.Task[T] = self._start_task(work)
        self.under_way[task] = None
        task.add_done_callback(lambda done: self.under_way.pop(done, None))
        return task


class _Context:
    """What a handler may ask of its call."""

    def __init__(self, stream: ServerStream | None) -> None:
        self._stream = stream

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        assert self._stream is not None
        self._stream.send_metadata(metadata)
