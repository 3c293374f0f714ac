"""The console's pages, drawn without a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from bookledger.admin.bookies import Bookies
from bookledger.admin.http.server import serving_http
from bookledger.console.console import Console
from bookledger.console.live import PollResult
from bookledger.console.rates import Rates
from bookledger.console.sources import PAGES_KEPT_MAX, Drawn, LastDrawn
from metadata import open_store
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryStore
from metadata.records import directory_generations
from metadata.records.directory_generations import Life
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import LedgerState
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from tests.support.made_clusters import BOOKIES, a_cluster_in_memory, a_record


async def test_bookies_are_shown_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bookledger.console.pages.BOOKIES_A_PAGE", 3)
    async with shown(await a_cluster_in_memory()) as session:
        first, second = [await text_of(session, path) for path in ("/bookies", "/bookies?first=b4")]
        empty = await text_of(session, "/bookies?first=z<b>")
    assert ">b3<" in first and ">b4<" not in first
    assert 'href="/bookies?first=b4"' in first and ">First<" not in first
    assert ">b4<" in second and ">b3<" not in second and ">Later<" not in second
    assert 'href="/bookies">First<' in second
    assert "There are no bookies from z&lt;b&gt; on." in empty and 'href="/bookies">First<' in empty


async def text_of(session: aiohttp.ClientSession, path: str, status: int = 200) -> str:
    async with session.get(path) as answer:
        assert answer.status == status
        return await answer.text()


@asynccontextmanager
async def shown(uri: str) -> AsyncIterator[aiohttp.ClientSession]:
    pages, content = Console(uri), Bookies(0).http_content()
    content.pages, content.error_page = pages.routes(), pages.error_page
    async with (
        serving_http("127.0.0.1", 0, content) as address,
        pages.open(),
        aiohttp.ClientSession(f"http://{address}", headers={"Accept": "text/html"}) as session,
    ):
        yield session


async def test_what_was_not_measured_yet_is_not_zero() -> None:
    async with shown(await a_cluster_in_memory()) as session:
        page = await text_of(session, "/")
    assert page.count("being measured") == 4
    assert "nothing was appended" not in page


async def test_a_poll_that_heard_nobody_twice_has_no_rate() -> None:
    assert PollResult({}, {"b1": "silent"}, 1.0).whole is None
    assert PollResult({"b1": Rates(entries=3.0)}).whole == Rates(entries=3.0)


async def test_while_the_metadata_is_away_pages_show_their_last_state_and_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("etcd is away")

    uri = await a_cluster_in_memory(ledgers=1)
    async with shown(uri) as session:
        before = await text_of(session, "/bookies")
        assert "data-away" not in before
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "get", away)
            page = await text_of(session, "/bookies", 503)
            assert "data-away" in page and "The metadata is unavailable" in page and "etcd is away" in page
            assert "The values below are from" in page and ">b4<" in page
            page = await text_of(session, "/ledgers", 503)
            assert "data-away" in page and "The values below" not in page, "it was not looked at before"
        assert "data-away" not in await text_of(session, "/bookies")


def test_so_many_pages_are_kept_and_those_that_were_looked_at_last() -> None:
    last = LastDrawn()
    for n in range(PAGES_KEPT_MAX + 1):
        last.keep(f"/ledgers?first={n}", Drawn("ledgers", {}, n))
    assert last.of("/ledgers?first=0") is None
    assert last.of("/ledgers?first=1") == Drawn("ledgers", {}, 1)


async def test_an_absent_bookie_keeps_its_fault_domain_its_address_and_its_disk() -> None:
    uri = await a_cluster_in_memory(living=3)
    store, b4 = await open_store(uri), BOOKIES[3]
    was = Registration(b4, "h4:3181", "/rack4", disk_bytes_total=100, disk_bytes_free=25, reading_key=b"k")
    await directory_generations.write(store, "b4", b4.incarnation, Life(1, 0, 1, was))
    async with shown(uri) as session:
        page = await text_of(session, "/bookies")
        async with session.get("/api/v1/bookies") as answer:
            *_, row = (await answer.json())["bookies"]
    assert "Fault domain /rack4" in page and "h4:3181" in page and "75 %" in page
    assert (row["lives"], row["address"], row["fault_domain"]) == (False, "h4:3181", "/rack4")
    assert (row["disk_total_bytes"], row["disk_free_bytes"], row["writable"]) == (100, 25, False)
    life = await directory_generations.read(store, "b4", b4.incarnation)
    assert life.last == replace(was, reading_key=b""), "without what is for other bookies"


async def test_ledgers_are_shown_the_newest_first_with_their_custom_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bookledger.console.pages.LEDGERS_A_PAGE", 2)
    uri = await a_cluster_in_memory(ledgers=5)
    await LedgerStore(await open_store(uri)).create(a_record(6, custom_metadata={"topic": b"<orders>"}))
    await take_ledger_ids(await open_store(uri), 6)
    async with shown(uri) as session:
        newest = await text_of(session, "/ledgers")
        older = await text_of(session, "/ledgers?order=newest&first=4")
        form = await text_of(session, "/ledgers?first=&state=&custom=topic~rder")
        oldest = await text_of(session, "/ledgers?first=0")
    assert newest.index(">6</a>") < newest.index(">5</a>") and ">4</a>" not in newest
    assert "topic=&lt;orders&gt;" in newest and 'href="/ledgers?order=newest&amp;first=4"' in newest
    assert ">4</a>" in older and ">3</a>" in older
    assert ">6</a>" in form and ">5</a>" not in form
    assert oldest.index(">1</a>") < oldest.index(">2</a>")


async def test_a_bookie_has_a_page_with_its_ledgers() -> None:
    uri = await a_cluster_in_memory(ledgers=4, living=3)
    async with shown(uri) as session:
        page = await text_of(session, "/bookies/b4")
        nobody = await text_of(session, "/bookies/b9", 404)
        everybody = await text_of(session, "/bookies")
    held = [n for n in range(1, 5) if a_record(n).names_bookie("b4")]
    assert 0 < len(held) < 4
    for n in range(1, 5):
        assert (f'href="/ledgers/{n}"' in page) is (n in held)
    assert "There is no bookie b9" in nobody and 'href="/bookies/b4"' in everybody


async def test_an_open_ledger_says_why_it_is_not_known_how_far_it_is_confirmed() -> None:
    uri = await a_cluster_in_memory()
    still: dict[str, Any] = {"state": LedgerState.OPEN, "last_entry": None, "length_bytes": None}
    await LedgerStore(await open_store(uri)).create(a_record(1, verifier=b"v", **still))
    async with shown(uri) as session:
        page = await text_of(session, "/ledgers/1")
    assert "not closed; unknown: the ledger has a password, which is unknown here" in page
