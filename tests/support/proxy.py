"""A TCP proxy that loses answers and connections, or takes its time, when a test says so."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Self

from bookie.wire.data import sockets

CHUNK_BYTES = 64 * 1024

SLOW_SECONDS = 0.02
"""What a chunk takes on a slow way, so that 3 MiB go through in a second."""


class Mode(Enum):
    FORWARD = "forward"
    DROP_REPLIES = "drop replies"  # requests arrive, answers vanish
    SLOW = "slow"
    CUT = "cut"  # no connection lives, new ones are closed at once


class Proxy:
    """Listens on a free port of 127.0.0.1, or where it is told, and forwards to `port` there. Use as `async with`."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", own_port: int = 0) -> None:
        self._target_port = port
        self._host = host
        self._own_port = own_port
        self._mode = Mode.FORWARD
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def forward(self) -> None:
        """Forwards again. Connections that lost bytes are cut, for no protocol survives a gap."""
        if self._mode is Mode.DROP_REPLIES:
            self._close_connections()
        self._mode = Mode.FORWARD

    def drop_replies(self) -> None:
        self._mode = Mode.DROP_REPLIES

    def slow(self) -> None:
        """Bytes come late, and none is lost."""
        self.forward()
        self._mode = Mode.SLOW

    def cut(self) -> None:
        self._mode = Mode.CUT
        self._close_connections()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self._own_port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await sockets.stop_listening(self._server)
        self.cut()
        await asyncio.sleep(0)  # those accepted last begin, and end
        if self._pipes:
            await asyncio.wait(self._pipes)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        self._writers.add(writer)
        try:
            if self._mode is not Mode.CUT:
                await self._pipe_both_ways(reader, writer)
        except OSError:  # either side went away, which ends this connection and nothing else
            pass
        finally:
            writer.close()
            self._writers.discard(writer)
            self._pipes.discard(task)

    async def _pipe_both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers.add(far_writer)
        try:
            async with asyncio.TaskGroup() as pipes:
                pipes.create_task(self._pipe(reader, far_writer, is_reply=False))
                pipes.create_task(self._pipe(far_reader, writer, is_reply=True))
        except* OSError:  # the same, out of the task group
            pass
        finally:
            far_writer.close()
            self._writers.discard(far_writer)

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            if self._mode is Mode.SLOW:
                await asyncio.sleep(SLOW_SECONDS)
            if not (is_reply and self._mode is Mode.DROP_REPLIES):
                writer.write(chunk)
                await writer.drain()
        writer.close()

    def _close_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
