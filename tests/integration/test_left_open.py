"""What becomes of writers that are open when their client is closed, or when the program ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from ledgers import LedgerClient as BlockingClient
from ledgers import LedgerClosed, LogClosed
from ledgers.aio import LedgerClient
from ledgers.writing import base_writer as closing
from tests.support.in_process import QUICK, InProcessCluster

NEVER = 3600.0


async def test_a_client_that_is_closed_closes_its_writers(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    async with LedgerClient(cluster.uri, config=replace(QUICK, idle_lac_seconds=NEVER)) as own:
        writer = await (await own.log("orders", create=True)).writer()
        pending = [await writer.append_async(b"%d" % n) for n in range(100)]
        ledger = await own.create_ledger()
        await ledger.append(b"a")
    assert [await one for one in pending] == list(range(100))
    log = await client.log("orders")
    assert log.record.end_position == 100
    assert (await client.describe_ledger(ledger.ledger_id)).last_entry == 0


async def test_entries_behind_a_gap_fail_where_their_client_is_closed(cluster: InProcessCluster) -> None:
    async with LedgerClient(cluster.uri, config=QUICK) as own:
        writer = await own.create_ledger_adv()
        assert await writer.append(0, b"a") == 0
        behind = await writer.append_async(2, b"c")
    with pytest.raises(LedgerClosed, match="entry 1 was never appended"):
        await behind
    assert writer.record.last_entry == 0


def test_closing_a_writer_that_its_client_has_closed_is_no_error(uri: str) -> None:
    client = BlockingClient(uri)
    writers = (
        client.create_ledger(),
        client.create_ledger_adv(),
        client.log("orders", create=True).writer(),
    )
    client.close()
    for writer in writers:
        writer.close()


async def test_what_cannot_be_closed_in_time_is_given_up_with_a_warning(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(closing, "CLOSE_SECONDS_MAX", 0.2)
    async with LedgerClient(cluster.uri, config=QUICK) as own:
        writer = await (await own.log("orders", create=True)).writer()
        for name in ("b1", "b2", "b3"):
            await cluster.stop(name)
        pending = await writer.append_async(b"a")
    with pytest.raises(LogClosed):
        await pending
    assert "log 'orders' was not closed when its client closed" in caplog.text


async def test_where_the_metadata_is_away_bookies_are_told_what_is_confirmed(
    cluster: InProcessCluster, client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "CLOSE_SECONDS_MAX", 0.2)
    own = LedgerClient(cluster.uri, config=replace(QUICK, idle_lac_seconds=NEVER))
    ledger = await own.create_ledger()
    await ledger.append(b"a")
    monkeypatch.setattr(ledger._version, "change", lambda *_: asyncio.Event().wait())
    await own.close()
    assert (await client.open_ledger(ledger.ledger_id, recovery=False)).last_add_confirmed == 0


ENDS = {
    "a script without `with`": """
        client = LedgerClient(uri)
        writer = client.log(name, create=True).writer()
        futures = [writer.append_async(b"a") for _ in range(100)]
    """,
    "an error": """
        client = LedgerClient(uri)
        writer = client.log(name, create=True).writer()
        writer.append_batch([b"a"] * 100)
        raise KeyboardInterrupt
    """,
    "a child that was forked": """
        client = LedgerClient(uri)
        writer = client.log(name, create=True).writer()
        writer.append_batch([b"a"] * 50)
        if os.fork() == 0:
            sys.exit()
        os.wait()
        writer.append_batch([b"a"] * 50)
    """,
    "asyncio without `async with`": """
        async def main():
            client = aio.LedgerClient(uri)
            writer = await (await client.log(name, create=True)).writer()
            await writer.append_batch([b"a"] * 100)

        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("how", ENDS)
def test_a_program_that_ends_closes_its_writers(uri: str, how: str) -> None:
    script = "import asyncio, os, sys\nfrom ledgers import LedgerClient, aio\nuri, name = sys.argv[1:]\n"
    name = f"ends-{list(ENDS).index(how)}"
    subprocess.run(
        [sys.executable, "-c", script + textwrap.dedent(ENDS[how]), uri, name],
        timeout=60,
        capture_output=True,
    )
    with BlockingClient(uri) as client:
        assert client.log(name).record.end_position == 100
