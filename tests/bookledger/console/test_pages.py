"""The console's pages, drawn without a browser."""

from __future__ import annotations

import aiohttp
import pytest

from bookledger.admin.bookies import Bookies
from bookledger.admin.http.server import serving_http
from bookledger.console.console import Console
from tests.support.made_clusters import a_cluster_in_memory


async def test_bookies_are_shown_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bookledger.console.pages.BOOKIES_A_PAGE", 3)
    pages, subject = Console(await a_cluster_in_memory()), Bookies(0).subject()
    subject.pages = pages.routes()
    async with (
        serving_http("127.0.0.1", 0, subject) as address,
        pages.open(),
        aiohttp.ClientSession(f"http://{address}") as session,
    ):
        first, second = [await text_of(session, path) for path in ("/bookies", "/bookies?first=b4")]
        empty = await text_of(session, "/bookies?first=z<b>")
    assert ">b3<" in first and ">b4<" not in first
    assert 'href="/bookies?first=b4"' in first and ">First<" not in first
    assert ">b4<" in second and ">b3<" not in second and ">Later<" not in second
    assert 'href="/bookies">First<' in second
    assert "There are no bookies from z&lt;b&gt; on." in empty and 'href="/bookies">First<' in empty


async def text_of(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path) as answer:
        assert answer.status == 200
        return await answer.text()
