"""What strangers do to a bookie: each of these again and again, from one address, until it is cancelled."""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from bookie.wire import codec
from bookie.wire.credentials import Purpose
from bookie.wire.data.framing import HEADER, FrameKind
from bookie.wire.grpc_methods import MAINTAIN
from bookie.wire.messages import (
    AppendRequest,
    Credential,
    Frame,
    LacRequest,
    LacStatement,
    MaintainRequest,
    MaintenanceAction,
    ReadRequest,
)
from ledgers.integrity.ledger_keys import LedgerKey
from tests.support.raw_data import RawConnection

MIB = 1024 * 1024

SILENT = 150
HALVES = 8
READS = 64
POLLS = 2000
FRAMES = 512
PAUSE_SECONDS = 0.5
"""Between one try and the next: what they do shall tell, and not how fast this machine does it."""

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">HBBBI", 0, 0, 4, 0, 0)
HTTP2_PING = struct.pack(">HBBBI", 0, 8, 6, 0, 0) + bytes(8)


@dataclass(frozen=True)
class Stranger:
    """One hostile client: an address of its own, a bookie to harm, and a ledger whose entries are large.

    With TLS it has a client's certificate, or it would get nowhere.
    """

    local: str
    address: str
    large_ledger: int
    large_identity: bytes
    tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connected(self, *, speaks: bool = True) -> AsyncIterator[RawConnection]:
        """One that does not speak never greets, with TLS either."""
        host, _, port = self.address.rpartition(":")
        tls = self.tls if speaks else None
        opened = await asyncio.open_connection(host, int(port), local_addr=(self.local, 0), ssl=tls)
        raw = RawConnection(*opened)
        try:
            yield raw
        finally:
            raw.writer.transport.abort()

    @asynccontextmanager
    async def welcomed(self) -> AsyncIterator[RawConnection]:
        async with self.connected() as raw:
            await raw.greet()
            yield raw

    async def says_nothing(self) -> None:
        await asyncio.gather(*(self._is_silent() for _ in range(SILENT)))

    async def _is_silent(self) -> None:
        async with self.connected(speaks=False) as raw:
            await raw.reader.read()

    async def says_hello_letter_by_letter(self) -> None:
        async with self.connected() as raw:
            for byte in HEADER.pack(200, 0, FrameKind.HELLO):
                raw.writer.write(bytes([byte]))
                await asyncio.sleep(1)

    async def sends_half_a_message(self) -> None:
        async def half() -> None:
            async with self.welcomed() as raw:
                raw.writer.write(HEADER.pack(8 * MIB, 0, FrameKind.APPEND) + bytes(MIB))
                await raw.reader.read()

        await asyncio.gather(*(half() for _ in range(HALVES)))

    async def takes_no_pages(self) -> None:
        async with self.welcomed() as raw:
            raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
            asked = raw.welcome.incarnation, self.large_ledger, 0, 100, 4 * MIB
            request = ReadRequest(*asked, identity=self.large_identity)
            for call in range(READS):
                raw.send(FrameKind.READ, call, codec.encode(request))
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await raw.writer.wait_closed()

    async def waits_for_news(self) -> None:
        async with self.welcomed() as raw:
            for call in range(POLLS):
                ledger_id = self.large_ledger + call % 7
                poll = LacRequest(
                    raw.welcome.incarnation,
                    ledger_id,
                    wait_beyond=2**60,
                    wait_ms=60_000,
                    identity=self.large_identity,
                )
                raw.send(FrameKind.LAST_ADD_CONFIRMED, call, codec.encode(poll))
            for _ in range(POLLS):
                if await raw.receive() is None:
                    return

    async def brings_false_proofs(self) -> None:
        async with self.welcomed() as raw:
            frames = [Frame(n, credential=Credential(KEY.verifier, os.urandom(64))) for n in range(FRAMES)]
            await self._append(raw, frames)

    async def brings_proofs_of_its_own(self) -> None:
        async with self.welcomed() as raw:
            incarnation, nonce = raw.welcome.incarnation, raw.welcome.nonce
            credential = KEY.credential(Purpose.APPEND, incarnation, nonce)
            frames = [Frame(OWN_LEDGER, credential=credential)]
            frames += [Frame(10**9 + n, last_add_confirmed=LacStatement(1, 1, b"")) for n in range(FRAMES)]
            await self._append(raw, frames)

    async def fences_with_false_proofs(self) -> None:
        async with self.welcomed() as raw:
            false = Credential(KEY.verifier, os.urandom(64))
            for call in range(FRAMES):
                asked = raw.welcome.incarnation, self.large_ledger, True
                lac = LacRequest(*asked, credential=false, identity=self.large_identity)
                raw.send(FrameKind.LAST_ADD_CONFIRMED, call, codec.encode(lac))
            while await raw.receive() is not None:
                pass

    async def asks_for_signs_of_life_and_takes_none(self) -> None:
        async with self.welcomed() as raw:
            raw.reader._transport.pause_reading()  # type: ignore[attr-defined]
            pings = HEADER.pack(0, 0, FrameKind.PING) * 5000
            with suppress(TimeoutError):
                async with asyncio.timeout(10):
                    while True:
                        raw.writer.write(pings)
                        await raw.writer.drain()

    async def floods_the_tools(self) -> None:
        async with self.connected() as raw:
            raw.writer.write(HTTP2)
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while True:
                        raw.writer.write(HTTP2_PING * 1000)
                        await raw.writer.drain()

    async def asks_for_maintenance(self) -> None:
        import grpc.aio

        request = b"".join(codec.encode(MaintainRequest(MaintenanceAction.STATUS)))
        async with grpc.aio.insecure_channel(self.address) as channel:
            ask: Any = channel.unary_unary(MAINTAIN)
            with suppress(grpc.aio.AioRpcError):
                await asyncio.gather(*(ask(request, timeout=10) for _ in range(50)))

    async def sends_noise(self) -> None:
        async with self.connected() as raw:
            raw.writer.write(os.urandom(64 * 1024))
            await raw.reader.read()
        async with self.welcomed() as raw:
            raw.send(FrameKind.APPEND, 0, [os.urandom(MIB)])
            await raw.reader.read()

    async def _append(self, raw: RawConnection, frames: list[Frame]) -> None:
        request = AppendRequest(raw.welcome.incarnation, 0, tuple(frames))
        raw.send(FrameKind.APPEND, 0, codec.encode(request))
        while await raw.receive() is not None:
            pass

    def attacks(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.says_nothing,
            self.says_hello_letter_by_letter,
            self.sends_half_a_message,
            self.takes_no_pages,
            self.waits_for_news,
            self.brings_false_proofs,
            self.brings_proofs_of_its_own,
            self.fences_with_false_proofs,
            self.asks_for_signs_of_life_and_takes_none,
            self.floods_the_tools,
            self.asks_for_maintenance,
            self.sends_noise,
        ]


DATA_ATTACKS = tuple(attack.__name__ for attack in Stranger("", "", 0, b"").attacks())

OWN_LEDGER = 10**9
KEY = LedgerKey(OWN_LEDGER, b"a password of its own")


async def again_and_again(attack: Callable[[], Awaitable[None]], counts: dict[str, int]) -> None:
    """Until it is cancelled. That the bookie ends the connection is what a stranger expects."""
    name = attack.__name__
    while True:
        counts[name] = counts.get(name, 0) + 1
        with suppress(OSError, asyncio.IncompleteReadError, AssertionError):
            await attack()
        await asyncio.sleep(PAUSE_SECONDS)
