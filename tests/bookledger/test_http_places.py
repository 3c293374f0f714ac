"""Who may connect to an HTTP port, with and without certificates: at each bound and one past it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from bookie.wire import connection_table
from bookie.wire.trust import roles
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role
from bookledger.admin.http import gate, server
from bookledger.admin.http.config import HttpConfig
from bookledger.admin.http.server import serving_http
from bookledger.admin.http_content import HttpContent
from tests.support.aio import until_true
from tests.support.authority import TestAuthority

SMALL = HttpConfig(connections_max=6, peer_share=0.7)
OF_ONE = 4
"""Of six connections."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """One that listens, and who comes to it. What is asked for at /waits is not answered."""

    def __init__(self, authority: TestAuthority | None) -> None:
        self._authority = authority
        self.registry = CollectorRegistry()
        self.waiting = 0
        self._coming: AsyncExitStack

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Port]:
        content = HttpContent(self.registry, list, [web.get("/waits", self._waits)])
        trust = Certificates(self._authority.bookie("b1")) if self._authority else None
        async with (
            serving_http("127.0.0.1", 0, content, trust, config=SMALL) as self._address,
            AsyncExitStack() as self._coming,
        ):
            yield self

    async def _waits(self, _: web.Request) -> web.Response:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1
        return web.Response()

    async def silent(self, of: str) -> Streams:
        """Says nothing, not even a greeting of TLS."""
        return await self._connected(of, None)

    async def asks(self, path: str, of: str) -> Streams:
        tls = Certificates(self._authority.of(Role.ADMIN)).client if self._authority else None
        reader, writer = await self._connected(of, tls)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return reader, writer

    async def waits(self, of: str) -> Streams:
        """At work from now on."""
        before = self.waiting
        streams = await self.asks("/waits", of)
        await until_true(lambda: self.waiting > before)
        return streams

    async def answered(self, of: str) -> bytes:
        """The first line of an answer; the connection stays open and idle."""
        reader, _ = await self.asks("/healthz", of)
        return await reader.readline()

    def told(self, name: str) -> float:
        value = self.registry.get_sample_value(name)
        assert value is not None
        return value

    async def _connected(self, of: str, tls: ssl.SSLContext | None) -> Streams:
        host, _, port = self._address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=(of, 0), ssl=tls)
        self._coming.callback(writer.close)
        return reader, writer


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(params=["plain", "tls"])
def authority(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TestAuthority | None:
    monkeypatch.setattr(connection_table, "STRANGER_SECONDS_MIN", 0.0)
    monkeypatch.setattr(gate, "STRANGERS_MAX", 5)
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 60.0)
    monkeypatch.setitem(roles.ROUTES, "/waits", roles.ROUTES["/metrics"])
    return TestAuthority(tmp_path) if request.param == "tls" else None


async def is_over(streams: Streams) -> bool:
    try:
        return await streams[0].read() == b""
    except ConnectionResetError:
        return True


async def test_the_silent_of_one_address_shut_nobody_out(authority: TestAuthority | None) -> None:
    async with Port(authority).open() as port:
        silent = [await port.silent("127.0.0.9") for _ in range(20)]
        assert await is_over(silent[0])
        assert await port.answered("127.0.0.1") == OK
        assert await port.answered("127.0.0.9") == OK, "nor the others of that address"
        assert port.told("bookledger_http_connections_made_way_total") >= 17


async def test_an_address_at_its_bound_loses_its_oldest_idle_connection(
    authority: TestAuthority | None,
) -> None:
    async with Port(authority).open() as port:
        busy = await port.waits("127.0.0.1")
        idle = await port.asks("/healthz", "127.0.0.1")
        assert await idle[0].readuntil(b"ok\n")
        for _ in range(OF_ONE - 2):
            assert await port.answered("127.0.0.1") == OK
        assert port.told("bookledger_http_connections_made_way_total") == 0
        assert await port.answered("127.0.0.1") == OK
        assert port.told("bookledger_http_connections_made_way_total") == 1
        assert await is_over(idle) and not busy[0].at_eof()
        assert port.told("bookledger_http_connections") == OF_ONE


async def test_an_address_whose_connections_are_all_at_work_is_told_so(
    authority: TestAuthority | None,
) -> None:
    async with Port(authority).open() as port:
        for _ in range(OF_ONE):
            await port.waits("127.0.0.1")
        if authority is None:
            reader, _ = await port.silent("127.0.0.1")
            told = await reader.read()
            assert told.startswith(b"HTTP/1.1 503 ") and b"4 connections of this address are open" in told
        else:  # before a greeting no words would be understood
            with pytest.raises(OSError):
                await port.asks("/healthz", "127.0.0.1")
        assert await port.answered("127.0.0.2") == OK
        assert port.told("bookledger_http_connections_refused_total") == 1


async def test_the_address_that_has_most_makes_way_even_for_who_comes_while_all_are_at_work(
    authority: TestAuthority | None,
) -> None:
    async with Port(authority).open() as port:
        first = await port.waits("127.0.0.9")
        for of in ["127.0.0.9"] * 3 + ["127.0.0.8"] * 2:
            await port.waits(of)
        assert port.told("bookledger_http_connections") == SMALL.connections_max
        assert await port.answered("127.0.0.1") == OK
        assert await is_over(first)
        assert port.told("bookledger_http_connections_made_way_total") == 1
