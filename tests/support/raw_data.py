"""A client that speaks raw frames of the data protocol, and one that says nothing at all."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from bookie.wire import Ack, codec
from bookie.wire.data.framing import HEADER, FrameKind, Received, framed
from bookie.wire.data.handshake import ClientHello, ServerHello, decode_server_hello
from bookie.wire.messages import AppendReply, Status


@dataclass
class RawConnection:
    """Frames out and in, one at a time. `welcome` is what the bookie said first."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    welcome: ServerHello = field(init=False)

    def send(self, kind: FrameKind, call: int = 0, body: Iterable[bytes | memoryview] = ()) -> None:
        self.writer.write(b"".join(framed(kind, call, list(body))))

    async def receive(self) -> Received | None:
        """The next frame, None where the other end has ended the connection."""
        try:
            size, call, kind = HEADER.unpack(await self.reader.readexactly(HEADER.size))
            return Received(FrameKind(kind), call, await self.reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionResetError, ssl.SSLError):
            return None

    async def greet(self, hello: ClientHello | None = None) -> None:
        self.send(FrameKind.HELLO, 0, [(hello or ClientHello()).encode()])
        answer = await self.receive()
        assert answer is not None and answer.kind is FrameKind.SERVER_HELLO, answer
        self.welcome = decode_server_hello(answer.body)

    async def acks(self) -> tuple[Ack, ...] | None:
        """Of the next message; None where the bookie says goodbye."""
        answer = await self.receive()
        if answer is None or answer.kind is FrameKind.GOODBYE:
            return None
        assert answer.kind is FrameKind.ACKS
        return codec.decode(AppendReply, answer.body).acks

    async def statuses(self, count: int | None = None) -> dict[int, Status]:
        """By sequence number: of so many frames, or of all that are acknowledged before the bookie says goodbye."""
        found: dict[int, Status] = {}
        while count is None or len(found) < count:
            acks = await self.acks()
            if acks is None:
                assert count is None, "the bookie has ended the connection"
                break
            found |= {ack.sequence: ack.status for ack in acks}
        return found

    async def call(self, kind: FrameKind, body: Iterable[bytes | memoryview]) -> Received:
        self.send(kind, 1, body)
        answer = await self.receive()
        assert answer is not None and answer.call == 1, answer
        return answer


@asynccontextmanager
async def raw_connection(address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawConnection]:
    """Nothing is said on it yet."""
    host, _, port = address.rpartition(":")
    raw = RawConnection(*await asyncio.open_connection(host, int(port), ssl=tls))
    try:
        yield raw
    finally:
        raw.writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await raw.writer.wait_closed()


@asynccontextmanager
async def after_handshake(address: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawConnection]:
    async with raw_connection(address, tls) as raw:
        await raw.greet()
        yield raw
