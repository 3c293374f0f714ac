"""The console's daemon, asked without a browser: what bounds it, what it forbids, whom it answers."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from dataclasses import replace
from pathlib import Path

from bookledger.console.console import STREAMS_MAX
from metadata import open_store
from metadata.records.cold.cold_copy import ColdCopy, new_key
from metadata.records.ledger_record import AcceptedLoss
from metadata.records.ledger_store import LedgerStore
from tests.support.console import console
from tests.support.http import NO_PROXY, get
from tests.support.made_clusters import BOOKIES, a_large_cluster, a_record
from tests.support.waiting import until


def test_pages_past_the_limit_of_streams_look_again_by_themselves(tmp_path: Path) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 1))
    with console(tmp_path, uri) as url:
        held = [NO_PROXY.open(f"{url}/events", timeout=10) for _ in range(STREAMS_MAX)]
        try:
            assert get(f"{url}/events")[0] == 503
            assert get(f"{url}/")[0] == 200
        finally:
            for one in held:
                one.close()
        until(lambda: _is_open(f"{url}/events"))


def _is_open(url: str) -> bool:
    try:
        with NO_PROXY.open(url, timeout=10) as answer:
            return bool(answer.read(1) == b":")
    except urllib.error.HTTPError:
        return False


def test_every_page_forbids_what_it_does_not_bring(tmp_path: Path) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 1))
    with console(tmp_path, uri) as url:
        for path in (
            "/",
            "/bookies",
            "/ledgers",
            "/ledgers/1",
            "/static/console.js",
            "/healing",
            "/logs",
            "/journals",
        ):
            with NO_PROXY.open(url + path, timeout=10) as answer:
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"


def test_a_ledger_whose_loss_was_accepted_says_so(tmp_path: Path) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 1))

    async def with_a_loss() -> None:
        store = await open_store(uri)
        loss = AcceptedLoss(0, "<b>root</b>@host", 7, missing=(BOOKIES[3], BOOKIES[2]))
        await LedgerStore(store).create(a_record(7, accepted_loss=loss))
        await store.close()

    asyncio.run(with_a_loss())
    with console(tmp_path, uri) as url:
        page = get(f"{url}/ledgers/7")[1]
        assert "1970-01-01" in page and "by &lt;b&gt;root&lt;/b&gt;@host" in page
        assert "proven up to entry 7; lost: b3, b4" in page
        assert "Loss accepted" not in get(f"{url}/ledgers/1")[1]


def test_a_ledger_in_an_object_store_says_where_it_is(tmp_path: Path) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 1))
    copy = ColdCopy("s3://archive/<b>", new_key(7, bytes(16)), (0,), 5_000_000, 1000)

    async def with_copies() -> None:
        store = await open_store(uri)
        closed = a_record(7)
        await LedgerStore(store).create(closed.uploading(copy).without_copies())
        being_copied = replace(closed, ledger_id=8).uploading(replace(copy, part_starts=(), size_bytes=0))
        await LedgerStore(store).create(being_copied)
        await store.close()

    asyncio.run(with_copies())
    with console(tmp_path, uri) as url:
        page = get(f"{url}/ledgers/7")[1]
        assert "s3://archive/&lt;b&gt;" in page and "no bookie keeps a copy" in page
        assert "This ledger is in the object store only." in page
        assert "being copied since 1970-01-01" in get(f"{url}/ledgers/8")[1]
        assert "Object store" not in get(f"{url}/ledgers/1")[1]
        seen = json.loads(get(f"{url}/api/v1/ledgers/7")[1])
        assert (seen["condition"], seen["fragments"]) == ("whole", [])
        assert seen["object_store"]["object_bytes"] == 5_000_000 and not seen["object_store"]["on_bookies"]
