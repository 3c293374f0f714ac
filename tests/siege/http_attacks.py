"""What strangers do to a bookie's HTTP port: each of these again and again, from one address, until it is cancelled."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

SILENT = 150
PIPELINED = 200
CONNECTIONS = 8
STREAMS = 20
ATTACK_SECONDS = 5.0

PAGES = ("/metrics", "/", "/api/v1/cluster", "/api/v1/ledgers?limit=500", "/healthz", "/no/such/path")
SEARCH = "/api/v1/ledgers?custom=nobody-has-this"
"""It looks at every ledger."""


@dataclass(frozen=True)
class HttpStranger:
    """One hostile HTTP client: an address of its own, and a bookie to harm. With TLS it has a console's certificate."""

    local: str
    address: str
    tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connected(
        self, *, speaks: bool = True
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """One that does not speak never greets, with TLS either."""
        host, _, port = self.address.rpartition(":")
        tls = self.tls if speaks else None
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(self.local, 0), ssl=tls)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def opens_silent_http_connections(self) -> None:
        async def is_silent() -> None:
            async with self.connected(speaks=False) as (reader, _):
                await reader.read()

        await asyncio.gather(*(is_silent() for _ in range(SILENT)))

    async def sends_http_headers_byte_by_byte(self) -> None:
        async with self.connected() as (_, writer):
            for byte in self._request("/metrics"):
                writer.write(bytes([byte]))
                await asyncio.sleep(1)

    async def reads_no_http_answers(self) -> None:
        async with self.connected() as (reader, writer):
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(self._request("/api/v1/ledgers?limit=500") * PIPELINED)
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * ATTACK_SECONDS):
                    await writer.wait_closed()

    async def floods_http_pages(self) -> None:
        await self._flood(PAGES)

    async def floods_http_probes(self) -> None:
        await self._flood(("/healthz", "/readyz"))

    async def searches_all_ledgers(self) -> None:
        await self._flood((SEARCH,))

    async def searches_and_does_not_wait(self) -> None:
        async def asks() -> None:
            async with self.connected() as (_, writer):
                writer.write(self._request(SEARCH))
                await writer.drain()

        end = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < end:
            await asyncio.gather(*(asks() for _ in range(CONNECTIONS)))

    async def holds_event_streams(self) -> None:
        async def listens() -> None:
            async with self.connected() as (reader, writer):
                writer.write(self._request("/events"))
                with suppress(TimeoutError):
                    async with asyncio.timeout(ATTACK_SECONDS):
                        await reader.read()

        await asyncio.gather(*(listens() for _ in range(STREAMS)))

    async def sends_malformed_http(self) -> None:
        huge = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000
        body = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n" + bytes(100_000)
        for noise in (os.urandom(64 * 1024), huge, body):
            async with self.connected() as (reader, writer):
                writer.write(noise)
                await reader.read()

    async def _flood(self, paths: Sequence[str]) -> None:
        """Asks on some connections, for the next as soon as there is an answer."""

        async def asks(first: int) -> None:
            end, number = time.monotonic() + ATTACK_SECONDS, first
            async with self.connected() as (reader, writer):
                while time.monotonic() < end:
                    writer.write(self._request(paths[number % len(paths)]))
                    if not await reader.read(64 * 1024):
                        return
                    number += 1

        await asyncio.gather(*(asks(number) for number in range(CONNECTIONS)))

    def _request(self, path: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\n\r\n".encode()

    def attacks(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.opens_silent_http_connections,
            self.sends_http_headers_byte_by_byte,
            self.reads_no_http_answers,
            self.floods_http_pages,
            self.floods_http_probes,
            self.searches_all_ledgers,
            self.searches_and_does_not_wait,
            self.holds_event_streams,
            self.sends_malformed_http,
        ]


HTTP_ATTACKS = tuple(attack.__name__ for attack in HttpStranger("", "").attacks())
