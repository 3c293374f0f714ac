"""By which names a daemon on loopback is asked: a web page that gives its own name our address is not answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bookie.wire.data import sockets
from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role
from bookledger.admin.http.server import is_loopback, serving_http
from bookledger.admin.http_content import HttpContent
from bookledger.admin.http_option import HttpAddress
from tests.support.authority import TestAuthority

OURS = [
    "127.0.0.1:9181",
    "127.0.0.1",
    "127.1.2.3",
    "localhost:80",
    "LocalHost.",
    "bookie.localhost",
    "[::1]:9181",
]
NOT_OURS = [
    "evil.example",
    "evil.example:9181",
    "10.0.0.1",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "[::2]",
    "",
    "[",
]


async def asked(address: str, *hosts: str, path: str = "/metrics") -> tuple[int, str]:
    """The status and the body of an answer to one GET with these Host lines."""
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    lines = [f"GET {path} HTTP/1.0", *(f"Host: {host}" for host in hosts)]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    return int(head.split()[1]), body


@asynccontextmanager
async def on_a_port(host: str, listens_at: str) -> AsyncIterator[str]:
    bound = sockets.bound(listens_at, 0)
    async with serving_http(host, 0, HttpContent(CollectorRegistry(), list), bound=bound):
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/no-such-page"])
async def test_a_name_of_somebody_elses_is_refused_in_words_whatever_it_asks_for(path: str) -> None:
    async with on_a_port("127.0.0.1", "127.0.0.1") as address:
        for host in NOT_OURS:
            status, why = await asked(address, host, path=path)
            assert status in (400, 421), host
            assert status == 400 or "use 127.0.0.1 or localhost" in why


async def test_every_name_of_loopback_is_answered_and_who_sends_none() -> None:
    async with on_a_port("127.0.0.1", "127.0.0.1") as address:
        for host in OURS:
            assert (await asked(address, host))[0] == 200, host
        assert (await asked(address))[0] == 200


async def test_a_second_host_is_looked_at_too() -> None:
    async with on_a_port("127.0.0.1", "127.0.0.1") as address:
        assert (await asked(address, "127.0.0.1", "evil.example"))[0] in (400, 421)


async def test_the_name_that_the_operator_gave_is_one() -> None:
    async with on_a_port("bookie1.example", "127.0.0.1") as address:
        assert (await asked(address, "Bookie1.Example:9181"))[0] == 200
        assert (await asked(address, "bookie2.example:9181"))[0] == 421


async def test_what_others_may_reach_is_asked_by_any_name() -> None:
    async with on_a_port("0.0.0.0", "0.0.0.0") as address:
        assert (await asked(address, "bookie1.example"))[0] == 200


async def test_with_certificates_the_certificate_counts_and_not_the_name(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    trust = Certificates(authority.bookie("b1"))
    async with serving_http("127.0.0.1", 0, HttpContent(CollectorRegistry(), list), trust) as address:
        tls = Certificates(authority.of(Role.CONSOLE)).client
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        writer.write(b"GET /metrics HTTP/1.0\r\nHost: bookie1.example\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()


def test_what_loopback_is() -> None:
    assert is_loopback("::1") and is_loopback("127.9.9.9") and is_loopback("a.localhost")
    assert not is_loopback("::2") and not is_loopback("") and not is_loopback("notlocalhost")
    assert HttpAddress("::1", 1).is_loopback and not HttpAddress("10.0.0.1", 1).is_loopback
