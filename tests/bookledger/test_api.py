"""`/api/v1`: each answer is what the document says, bounded, and never a hang."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from bookledger.admin.api import metadata_view, search, table
from bookledger.admin.bookies import Bookies
from bookledger.admin.http.problems import PROBLEM_TYPE
from bookledger.admin.http.server import serving_http
from bookledger.console.console import Console
from metadata import keys, open_store
from metadata.backup.no_cluster import NO_CLUSTER
from metadata.healing.lease_lock import LeaseLock, encode
from metadata.healing.marks import Marks
from metadata.records import registration
from metadata.records.cluster import Cookie, cluster_id
from metadata.records.journal_record import JournalState, SegmentRecord
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import AcceptedLoss, LedgerState
from metadata.records.ledger_store import LedgerStore
from tests.support.ledgers import delete
from tests.support.made_clusters import BOOKIES, a_cluster_in_memory, a_record
from tests.support.present import there

OPENAPI = table.openapi("0")

BUSY_SECONDS_MAX = 25
"""So long may this take on a busy machine."""


@asynccontextmanager
async def answering(uri: str) -> AsyncIterator[str]:
    pages, content = Console(uri), Bookies(0).http_content()
    content.pages = pages.routes()
    async with serving_http("127.0.0.1", 0, content) as address, pages.open():
        yield f"http://{address}/api/v1"


async def ask(url: str) -> tuple[int, Any]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        assert answer.content_type == ("application/json" if answer.ok else PROBLEM_TYPE)
        return answer.status, await answer.json(content_type=None)


async def told(url: str, path: str, given: str = "") -> Any:
    """What is answered, held to the document."""
    status, found = await ask(url + (given or path))
    answers = OPENAPI["paths"][table.PREFIX + path]["get"]["responses"]
    assert str(status) in answers
    (content,) = answers[str(status)]["content"].values()
    schema = content["schema"]
    Draft202012Validator({**schema, "components": OPENAPI["components"]}).validate(found)
    return found


async def pages(url: str, path: str, given: str, *, first: object = 0, following: str = "next") -> list[Any]:
    """Each page of a listing; `given` ends where the name of what it begins with belongs."""
    found: list[Any] = []
    while first is not None:
        found.append(await told(url, path, f"{given}{first}"))
        first = found[-1][following]
    return found


def ids(page: Any) -> list[int]:
    return [one["ledger_id"] for one in page["ledgers"]]


async def ids_of(url: str, given: str, limit: int) -> list[int]:
    """Of all ledgers that are found so, page by page."""
    found = await pages(url, "/ledgers", f"/ledgers?{given}&limit={limit}&first=")
    assert all(len(page["ledgers"]) <= limit for page in found)
    return [ledger_id for page in found for ledger_id in ids(page)]


async def test_the_document_is_openapi_and_is_served() -> None:
    validate(OPENAPI)
    async with answering("memory://nobody") as url:
        status, found = await ask(f"{url}/openapi.json")
    assert status == 200
    assert found["paths"] == json.loads(json.dumps(OPENAPI["paths"]))


def test_every_path_is_described_for_operators() -> None:
    document = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| `(/api/v1/\S+?)(?:\?\S*)?` \|", document, re.MULTILINE)
    paths = {path.replace("{ledger_id}", "ID").replace("{log}", "NAME") for path in OPENAPI["paths"]}
    assert set(rows) == paths | {"/api/v1/…", "/api/v1/openapi.json"}


async def test_every_answer_of_a_cluster_is_what_the_document_says() -> None:
    uri = await a_cluster_in_memory(ledgers=3, living=3)
    store = await open_store(uri)
    await LedgerStore(store).create(
        a_record(
            7,
            fragments=3,
            custom_metadata={"who": b"\xff<b>", "long": b"x" * 5000},
            accepted_loss=AcceptedLoss(1000, "root@host", -1, missing=(BOOKIES[3], BOOKIES[2])),
        )
    )
    await Marks(store).set(7, ["b4 is lost"], 1)
    await store.create(keys.healing(7), encode(LeaseLock(BOOKIES[0], 1, 1000), b"n"))
    state = JournalState(
        last_promised_epoch=3,
        last_writer_epoch=2,
        segments=(SegmentRecord(1, 2, -64, 2, 9, True), SegmentRecord(10, 3, -64, 2)),
    )
    await JournalStore(store, "j", "a1").swap_state(state, None)
    await JournalStore(store, "j", "a2").swap_state(JournalState(last_promised_epoch=3), None)
    async with answering(uri) as url:
        cluster = await told(url, "/cluster")
        assert cluster["condition"] == "wounded"
        assert cluster["absent"] == ["b4"]
        assert cluster["counts"]["ledgers"] == {"closed": 4}
        assert cluster["counts"]["copies_left"] == {"2": 5, "3": 1}
        assert cluster["lost_after_seconds"] == 600
        bookies = (await told(url, "/bookies"))["bookies"]
        assert [one["bookie_id"] for one in bookies] == ["b1", "b2", "b3", "b4"]
        assert (bookies[3]["state"], bookies[3]["address"]) == ("away", None)
        assert bookies[3]["behind"] == bookies[3]["fragment_count"] > 0 == bookies[0]["behind"]
        ledgers = (await told(url, "/ledgers"))["ledgers"]
        assert [one["ledger_id"] for one in ledgers] == [1, 2, 3, 7]
        ledger = await told(url, "/ledgers/{ledger_id}", "/ledgers/7")
        assert [one["first_entry"] for one in ledger["fragments"]] == [0, 10, 20]
        assert ledger["mark"]["reasons"] == ["b4 is lost"]
        assert ledger["accepted_loss"] == {
            "at_ms": 1000,
            "by": "root@host",
            "proven_through": -1,
            "given_up": ["b3", "b4"],
        }
        assert (await told(url, "/ledgers/{ledger_id}", "/ledgers/1"))["accepted_loss"] is None
        assert (ledger["writer"], ledger["closed_ms"]) == ("none: the ledger is closed", None)
        assert {"key": "who", "value": "\ufffd<b>", "cut": False} in ledger["custom"]
        assert sum(len(one["value"]) for one in ledger["custom"]) < 2000
        (marked,) = (await told(url, "/fragments"))["under_replicated"]
        assert {copy["bookie_id"] for copy in marked["copies"]} == {"b4"}
        healing = await told(url, "/healing")
        assert [(one["ledger_id"], one["bytes_copied"]) for one in healing["healing"]] == [(7, 1000)]
        (journal,) = (await told(url, "/journals"))["journals"]
        first, second = journal["acceptors"]
        assert (first["last_finalized_txid"], first["lag_txids"]) == (9, 0)
        assert first["in_progress"] == [{"first_txid": 10, "ledger_id": 3, "epoch": 2}]
        assert (second["last_finalized_txid"], second["lag_txids"]) == (None, 9)


async def test_an_acceptor_is_behind_since_what_it_lacks_was_finalized_elsewhere() -> None:
    """One has two segments more than another, another has all, of one nobody knows since when."""
    uri = await a_cluster_in_memory(ledgers=0, living=3)
    store = await open_store(uri)
    now_ms = time.time_ns() // 1_000_000
    for ledger_id, seconds_ago in ((1, 90), (2, 60), (3, 30)):
        record = a_record(ledger_id, closed_ms=now_ms - 1000 * seconds_ago)
        await LedgerStore(store).create(record)
    await LedgerStore(store).create(a_record(4))  # nobody knows when it was closed
    ends = [SegmentRecord(1, 1, -64, 2, 9, True), SegmentRecord(10, 2, -64, 2, 19, True)]
    ends += [SegmentRecord(20, 3, -64, 2, 29, True)]
    for name, segments in (("all", ends), ("none", []), ("one", ends[:1]), ("two", ends[:2])):
        await JournalStore(store, "j", name).swap_state(JournalState(segments=tuple(segments)), None)
    old = JournalState(segments=(SegmentRecord(1, 4, -64, 2, 9, True),))
    await JournalStore(store, "old", "all").swap_state(old, None)
    await JournalStore(store, "old", "none").swap_state(JournalState(), None)
    async with answering(uri) as url:
        found, older = (await told(url, "/journals"))["journals"]
    lags = {one["acceptor"]: one["lag_millis"] for one in found["acceptors"]}
    assert lags["all"] == 0
    for name, seconds in (("none", 90), ("one", 60), ("two", 30)):
        assert 1000 * seconds <= lags[name] < 1000 * (seconds + BUSY_SECONDS_MAX)
    assert [one["lag_millis"] for one in older["acceptors"]] == [0, None]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
async def test_bookies_are_told_page_by_page_each_once(limit: int) -> None:
    """One that was formatted anew while its predecessor still serves is two, on one page."""
    uri = await a_cluster_in_memory(living=3)
    store = await open_store(uri)
    found, name = there(await store.get(keys.cookie("b2"))), there(await cluster_id(store))
    anew = Cookie(name, "b2", "incarnation-anew").encode()
    await store.replace(keys.cookie("b2"), anew, found.version)
    async with answering(uri) as url:
        listed = await pages(url, "/bookies", f"/bookies?limit={limit}&first=", first="")
        between = await told(url, "/bookies", "/bookies?first=b2.5")
        behind = await told(url, "/bookies", "/bookies?first=c")
    both = [("b2", "incarnation-2"), ("b2", "incarnation-anew")]
    assert all(1 <= len({one["bookie_id"] for one in page["bookies"]}) <= limit for page in listed)
    seen = [(one["bookie_id"], one["incarnation"]) for page in listed for one in page["bookies"]]
    assert seen == [("b1", "incarnation-1"), *both, ("b3", "incarnation-3"), ("b4", "incarnation-4")]
    assert [one["bookie_id"] for one in between["bookies"]] == ["b3", "b4"]
    assert behind == {"bookies": [], "next": None}


async def test_a_long_listing_is_told_page_by_page_each_ledger_once() -> None:
    uri = await a_cluster_in_memory(ledgers=25)
    store = await open_store(uri)
    await delete(LedgerStore(store), 4, 5, 6, 7, 8)
    async with answering(uri) as url:
        seen = await ids_of(url, "", 4)
    assert seen == [1, 2, 3, *range(9, 26)]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize("chosen", [None, 2**62])
async def test_the_newest_ledgers_come_first_each_once_over_whatever_gaps(
    limit: int, chosen: int | None
) -> None:
    """Ids are taken in blocks, and applications may choose some."""
    uri = await a_cluster_in_memory(ledgers=20)
    store = await open_store(uri)
    made = [*range(1, 21), 5000, 5001, *([chosen] if chosen else [])]
    for ledger_id in made[20:]:
        await LedgerStore(store).create(a_record(ledger_id))
    await take_ledger_ids(store, 6000)
    await delete(LedgerStore(store), 7, 8, 9)
    async with answering(uri) as url:
        seen = await ids_of(url, "order=newest", limit)
        why = (await told(url, "/ledgers", "/ledgers?order=newest&state=open"))["detail"]
    assert seen == [n for n in reversed(made) if n not in (7, 8, 9)]
    assert why == "order=newest lists all ledgers: it cannot be combined with state, custom or bookie"


async def test_a_listing_has_custom_metadata_in_bounds_and_how_many_there_are() -> None:
    uri = await a_cluster_in_memory(ledgers=2)
    custom = {f"key{n}": b"x" * 500 for n in range(9)}
    await LedgerStore(await open_store(uri)).create(a_record(3, custom_metadata=custom))
    async with answering(uri) as url:
        await told(url, "/cluster")  # which has them counted
        page = await told(url, "/ledgers", "/ledgers?order=newest")
    newest, *others = page["ledgers"]
    assert page["counts"] == {"closed": 3}
    assert [one["key"] for one in newest["custom"]] == [f"key{n}" for n in range(5)]
    assert all(len(one["value"]) == 60 and one["cut"] for one in newest["custom"])
    assert [one["custom"] for one in others] == [[], []]


async def with_various_ledgers() -> str:
    """Of 1 to 40 every tenth is open, and has custom metadata."""
    uri = await a_cluster_in_memory()
    store = LedgerStore(await open_store(uri))
    for n in range(1, 41):
        more: dict[str, Any] = {"custom_metadata": {"note": b"topic orders"}}
        if n % 10 == 0:
            custom = {"topic": b"orders" if n < 40 else b"bills"}
            still = {"state": LedgerState.OPEN, "last_entry": None, "length_bytes": None}
            more = {"custom_metadata": custom, **still}
        await store.create(a_record(n, **more))
    await take_ledger_ids(await open_store(uri), 40)
    return uri


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("state=open", [10, 20, 30, 40]),
        ("state=closed", [n for n in range(1, 41) if n % 10]),
        ("custom=topic", [10, 20, 30, 40]),
        ("custom=topic%3Dorders", [10, 20, 30]),
        ("custom=topic=orders&state=closed", []),
        ("custom=topic=", []),
        ("custom=topic~rder", [10, 20, 30]),
        ("custom=topic~", [10, 20, 30, 40]),
        ("bookie=b4&state=open", [10, 30]),
        ("bookie=nobody", []),
        ("state=open&custom=topic=bills", [40]),
        ("state=in_recovery", []),
    ],
)
async def test_ledgers_are_found_by_state_and_custom_metadata(given: str, wanted: list[int]) -> None:
    async with answering(await with_various_ledgers()) as url:
        for limit in (1, 3, 100):
            assert await ids_of(url, given, limit) == wanted


async def test_a_search_answers_with_what_it_has_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS_MAX", 0.0)
    monkeypatch.setattr(search, "PAGE_KEYS_MAX", 15)
    async with answering(await with_various_ledgers()) as url:
        found = await pages(url, "/ledgers", "/ledgers?custom=topic=bills&first=")
    assert [(ids(page), page["next"]) for page in found] == [([], 16), ([], 31), ([40], None)]


async def test_what_is_wrong_with_bookies_that_live_is_told() -> None:
    uri = await a_cluster_in_memory(ledgers=1)
    store = await open_store(uri)
    for one in BOOKIES:
        found = there(await store.get(keys.bookie(one.bookie_id)))
        full = replace(registration.decode(found.key, found.value), writable=False)
        await store.replace(full.key, full.encode(), found.version)
    async with answering(uri) as url:
        cluster = await told(url, "/cluster")
    assert cluster["condition"] == "wounded"
    assert "every live bookie is read-only" in str(cluster["facts"])


async def test_a_ledgers_fragments_are_told_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bookledger.admin.api.ledger_state.FRAGMENTS_MAX", 2)
    uri = await a_cluster_in_memory()
    await LedgerStore(await open_store(uri)).create(a_record(1, fragments=5))
    async with answering(uri) as url:
        found = await pages(
            url, "/ledgers/{ledger_id}", "/ledgers/1?first_fragment=", following="next_fragment"
        )
    assert [one["first_entry"] for page in found for one in page["fragments"]] == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("/bookies?limit=1001", "limit must be a whole number from 1 to 1000"),
        (f"/bookies?first={'b' * 129}", "first must not exceed 128 characters"),
        ("/bookies?after=b1", "after: unknown parameter; the known ones are: first, limit"),
        ("/ledgers?limit=0", "limit must be a whole number from 1 to 500"),
        ("/ledgers?limit=501", "limit must be a whole number from 1 to 500"),
        ("/ledgers?first=-1", "first must be a whole number from 0"),
        ("/ledgers?first=x", "first must be a whole number from 0"),
        (f"/ledgers?first={2**63}", "first must be a whole number from 0"),
        ("/ledgers?state=opened", "state must be one of open, in_recovery, closed"),
        (f"/ledgers?custom={'x' * 1001}", "custom must not exceed 1000 characters"),
    ],
)
async def test_a_parameter_that_is_none_is_told_so(given: str, why: str) -> None:
    """One that was written wrong would give what nobody asked for."""
    async with answering(await a_cluster_in_memory()) as url:
        assert why in (await told(url, given.partition("?")[0], given))["detail"]


async def test_a_path_that_takes_no_parameter_says_so() -> None:
    async with answering(await a_cluster_in_memory()) as url:
        status, text = await ask(f"{url}/cluster?x=1")
        assert status == 400 and "the known ones are: none" in str(text)


async def test_a_ledger_that_is_not_there_is_404() -> None:
    async with answering(await a_cluster_in_memory()) as url:
        assert (await ask(f"{url}/ledgers/5"))[0] == 404
        await told(url, "/ledgers/{ledger_id}", "/ledgers/5")


@pytest.mark.parametrize("one", table.PATHS, ids=lambda one: one.path)
async def test_metadata_that_is_away_is_503_with_the_reason(
    one: table.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_view, "ANSWER_SECONDS_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"etcd://127.0.0.1:{silent.getsockname()[1]}/prefix"
        async with answering(uri) as url, asyncio.timeout(10):
            path = one.path.format(ledger_id=1, log="orders")
            status, found = await ask(url + path)
            assert status == 503
            assert found == {
                "type": "about:blank",
                "title": "Service Unavailable",
                "status": 503,
                "detail": "the metadata store has not answered for 0.2 s",
            }
            await told(url, one.path, path)


async def test_where_there_is_no_cluster_that_is_told() -> None:
    async with answering("memory://nothing-here") as url:
        assert (await told(url, "/cluster"))["detail"] == NO_CLUSTER


async def test_a_record_of_a_newer_program_hides_no_other_ledger() -> None:
    uri = await a_cluster_in_memory(ledgers=2)
    await (await open_store(uri)).create(keys.ledger(3), b"\x08\x63")
    async with answering(uri) as url:
        page = await told(url, "/ledgers")
        assert ids(page) == [1, 2]
        assert keys.ledger(3) in (await told(url, "/ledgers/{ledger_id}", "/ledgers/3"))["detail"]
