"""Whatever goes wrong over HTTP is a problem document; a browser that asks for HTML gets a page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.roles import Role
from bookledger.admin.http.config import HttpConfig
from bookledger.admin.http.problems import PROBLEM_TYPE
from bookledger.admin.http.server import serving_http
from bookledger.admin.http_content import HttpContent
from bookledger.console.console import Console
from ledgers import ClientConfig
from ledgers.config import PLAIN_TEXT
from metadata.counting import facts
from tests.support.authority import TestAuthority
from tests.support.made_clusters import a_cluster_in_memory

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
WHY_NOT = "it reads its log"
SECRET = b"mellon"


async def fails(_: web.Request) -> web.Response:
    raise RuntimeError(SECRET.decode())


async def is_slow(_: web.Request) -> web.Response:
    raise TimeoutError


@asynccontextmanager
async def answering(
    certificates: Certificates | None = None, config: HttpConfig | None = None, *, with_pages: bool = True
) -> AsyncIterator[str]:
    """A daemon's port, at its address."""
    console = Console(await a_cluster_in_memory(ledgers=1), config=ClientConfig(certificates=PLAIN_TEXT))
    routes = [*console.routes(), web.get("/fails", fails), web.get("/slow", is_slow)]
    content = HttpContent(
        CollectorRegistry(),
        lambda: [facts.STARTED.found(WHY_NOT)],
        routes,
        console.error_page if with_pages else None,
    )
    async with serving_http("127.0.0.1", 0, content, certificates, config=config) as address, console.open():
        yield address


async def asked(address: str, path: str, method: str = "GET", **options: Any) -> aiohttp.ClientResponse:
    """The answer, with its body read."""
    scheme = "https" if "ssl" in options else "http"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        session.request(method, f"{scheme}://{address}{path}", **options) as answer,
    ):
        await answer.read()
        return answer


async def check_is_problem(answer: aiohttp.ClientResponse, status: HTTPStatus, why: str) -> None:
    assert answer.status == status
    assert answer.content_type == PROBLEM_TYPE
    found = await answer.json(content_type=PROBLEM_TYPE)
    assert found == {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": found["detail"],
    }
    assert why in found["detail"]


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("/no/such/path", HTTPStatus.NOT_FOUND, "this path does not exist"),
        ("/api/v1/nothing", HTTPStatus.NOT_FOUND, "this path does not exist"),
        ("/api/v1/ledgers/99", HTTPStatus.NOT_FOUND, "not found"),
        ("/api/v1/ledgers/x", HTTPStatus.BAD_REQUEST, "must be a whole number"),
        ("/ledgers/99", HTTPStatus.NOT_FOUND, "There is no ledger 99"),
        ("/ledgers/1/entries", HTTPStatus.NOT_FOUND, "bookledger console --entries"),
        ("/ledgers?first=x", HTTPStatus.BAD_REQUEST, "first must be a whole number"),
        ("/static/nothing", HTTPStatus.NOT_FOUND, "this path does not exist"),
        ("/readyz", HTTPStatus.SERVICE_UNAVAILABLE, WHY_NOT),
        ("/slow", HTTPStatus.GATEWAY_TIMEOUT, "Timeout"),
    ],
)
async def test_what_goes_wrong_is_a_problem_document(path: str, status: HTTPStatus, why: str) -> None:
    async with answering() as address:
        await check_is_problem(await asked(address, path), status, why)


async def test_a_method_that_changes_something_is_a_problem_and_the_answer_says_which_do_not() -> None:
    async with answering() as address:
        for path in ("/metrics", "/api/v1/cluster", "/"):
            answer = await asked(address, path, "POST")
            await check_is_problem(answer, HTTPStatus.METHOD_NOT_ALLOWED, "supports only GET and HEAD")
            assert answer.headers["Allow"] == "GET,HEAD"


async def test_a_failure_of_ours_is_a_problem_that_tells_nothing_of_it() -> None:
    async with answering() as address:
        answer = await asked(address, "/fails", headers={"Accept": BROWSER})
        await check_is_problem(answer, HTTPStatus.INTERNAL_SERVER_ERROR, "its log has the reason")
        assert SECRET.decode() not in await answer.text()


async def test_a_name_of_somebody_elses_gets_a_problem_and_no_page() -> None:
    async with answering() as address:
        for accept in ("*/*", BROWSER):
            answer = await asked(address, "/", headers={"Host": "evil.example", "Accept": accept})
            await check_is_problem(answer, HTTPStatus.MISDIRECTED_REQUEST, "use 127.0.0.1 or localhost")


async def test_what_a_role_may_not_is_a_problem_or_a_page(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    tls = Certificates(authority.of(Role.CLIENT)).client
    async with answering(Certificates(authority.bookie("b1"))) as address:
        answer = await asked(address, "/metrics", ssl=tls)
        await check_is_problem(answer, HTTPStatus.FORBIDDEN, "may not read operator data")
        page = await asked(address, "/", ssl=tls, headers={"Accept": BROWSER})
        assert (page.status, page.content_type) == (403, "text/html")
        assert "may not read operator data" in await page.text()


async def raw(address: str, *pieces: bytes) -> tuple[bytes, dict[str, Any]]:
    """The status line and the document of what is answered."""
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    try:
        for piece in pieces:
            writer.write(piece)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    assert PROBLEM_TYPE.encode() in head, head
    found: dict[str, Any] = json.loads(body)
    return head.splitlines()[0], found


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01 no request\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + SECRET + b"\x00\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + SECRET * 10_000 + b"\r\n\r\n",
    ],
    ids=["no HTTP", "no header", "a long header"],
)
async def test_what_is_no_request_gets_a_problem_in_which_nothing_of_it_stands(noise: bytes) -> None:
    async with answering() as address:
        line, found = await raw(address, noise)
        assert line.split()[1] == b"400" == str(found["status"]).encode()
        assert "not a valid HTTP request" in found["detail"] and SECRET.decode() not in str(found)


async def test_who_finds_no_place_gets_a_problem() -> None:
    config = HttpConfig(connections_max=4, peer_share=1)
    async with answering(config=config) as address, asyncio.TaskGroup() as group:
        streams = [group.create_task(opened(address)) for _ in range(config.connections_max)]
        open_ones = [await one for one in streams]
        line, found = await raw(address, b"")
        assert b"503" in line and "no more may be" in found["detail"]
        for writer in open_ones:
            writer.close()


async def opened(address: str) -> asyncio.StreamWriter:
    """A connection that is at work: the console's stream of news."""
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"200" in await reader.readline()
    return writer


@pytest.mark.parametrize(
    ("path", "status", "title"),
    [
        ("/no/such/path", 404, "Not Found"),
        ("/ledgers/99", 404, "No such ledger"),
        ("/ledgers/1/entries", 404, "Entries of ledger 1"),
        ("/ledgers?first=x", 400, "Invalid request"),
    ],
)
async def test_a_browser_gets_a_page(path: str, status: int, title: str) -> None:
    async with answering() as address:
        answer = await asked(address, path, headers={"Accept": BROWSER})
        text = await answer.text()
        assert (answer.status, answer.content_type) == (status, "text/html")
        assert f"<h1>{title}</h1>" in text and "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML;level=1", True),
        ("application/json;q=0.5, text/html", True),
        ("*/*", False),
        ("", False),
        ("text/html;q=0", False),
        ("text/html;q=nonsense", False),
        ("text/html;q=0.2, application/json", False),
        ("application/problem+json, text/html;q=0.9", False),
        (";;q=,", False),
    ],
)
async def test_who_wants_a_page_is_told_by_accept(accept: str, *, is_page: bool) -> None:
    async with answering() as address:
        answer = await asked(address, "/ledgers/99", headers={"Accept": accept})
        assert answer.content_type == ("text/html" if is_page else PROBLEM_TYPE)


@pytest.mark.parametrize("path", ["/api/v1/ledgers/99", "/api/v2", "/readyz"])
async def test_what_is_for_machines_is_a_problem_for_browsers_too(path: str) -> None:
    async with answering() as address:
        assert (await asked(address, path, headers={"Accept": BROWSER})).content_type == PROBLEM_TYPE


async def test_a_port_without_pages_draws_none() -> None:
    async with answering(with_pages=False) as address:
        answer = await asked(address, "/nothing", headers={"Accept": BROWSER})
        await check_is_problem(answer, HTTPStatus.NOT_FOUND, "this path does not exist")
