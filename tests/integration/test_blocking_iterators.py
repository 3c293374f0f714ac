"""Iterators of the blocking client: left half-way by anybody, anywhere, and errors in their place."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import ledgers
from ledgers import EntryUnreadable
from ledgers.aio import LedgerClient
from tests.support.blocking import run_script
from tests.support.in_process import on_bookies

ENTRIES = 5000


async def ledger_of(client: LedgerClient) -> int:
    async with await client.create_ledger() as writer:
        for n in range(ENTRIES):
            await writer.append_async(b"%d" % n * 500)
    return writer.ledger_id


HALF_READ = """
import sys, ledgers
client = ledgers.LedgerClient(sys.argv[1])
reader = client.open_ledger(int(sys.argv[2]))
half_read = {iterator}
next(half_read)
print("half read", flush=True)
"""


@pytest.mark.parametrize("iterator", ["reader.read()", "reader.tail()", "client.list_ledgers()"])
@pytest.mark.parametrize("client_is", ["left open", "closed"])
async def test_an_interpreter_ends_with_a_half_read_iterator(
    tmp_path: Path, iterator: str, client_is: str
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        ledger_id = await ledger_of(client)
        await ledger_of(client)
        script = HALF_READ.format(iterator=iterator) + ("client.close()" if client_is == "closed" else "")
        assert await run_script(script, cluster.uri, str(ledger_id)) == (0, "half read\n")


DROPPED_ON_THE_LOOP_THREAD = """
import gc, sys, threading, ledgers
client = ledgers.LedgerClient(sys.argv[1])
reader = client.open_ledger(int(sys.argv[2]))
class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.iterator = cycle, reader.read()
next(cycle.iterator)
gc.disable()
del cycle
collected = threading.Event()
client._thread.call_soon(lambda: (gc.collect(), collected.set()))
assert collected.wait(15), "the collection hangs"
assert reader.read_entry(7).payload == b"7" * 500
client.close()
print("read on")
"""


async def test_an_iterator_collected_on_the_loop_thread_itself_stops_nothing(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        ledger_id = await ledger_of(client)
        assert await run_script(DROPPED_ON_THE_LOOP_THREAD, cluster.uri, str(ledger_id)) == (0, "read on\n")


def test_an_iterator_that_is_dropped_ends_what_it_has_running(uri: str) -> None:
    async def reading() -> set[str]:
        running = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
        return {name for name in running if name.startswith(("PageFetcher", "LedgerView", "PageSource"))}

    with ledgers.LedgerClient(uri) as client:
        with client.create_ledger() as writer:
            for _ in range(100):
                writer.append_async(bytes(1_000_000))
        reader = client.open_ledger(writer.ledger_id)
        half_read = reader.read()
        next(half_read)
        following = reader.tail()
        next(following)
        assert client._thread.run(reading)
        del half_read, following
        while client._thread.run(reading):
            time.sleep(0.01)  # what was cancelled is ending


async def test_entries_before_an_unreadable_one_are_given_before_the_error(tmp_path: Path) -> None:
    def read_until_the_error(uri: str, ledger_id: int) -> list[int]:
        seen: list[int] = []
        with ledgers.LedgerClient(uri) as client:
            reader = client.open_ledger(ledger_id)
            with pytest.raises(EntryUnreadable, match="entry 2 "):
                for entry in reader.read():
                    seen.append(entry.entry_id)
        return seen

    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=3, write_quorum=1, ack_quorum=1)
        for n in range(10):
            await writer.append(b"%d" % n)
        await writer.close()
        await cluster.stop(writer.record.fragments[0].ensemble[2].bookie_id)
        seen = await asyncio.to_thread(read_until_the_error, cluster.uri, writer.ledger_id)
        assert seen == [0, 1], "entry 2 stood on the stopped bookie alone"
