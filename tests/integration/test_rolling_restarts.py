"""Bookies restarted one after another, and two at once: no writer is lost, busy or idle."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from tests.measure.rolling import appends, restarted

QUICK = ClientConfig(retry_replacement_seconds=0.2, append_seconds_max=2, read_seconds_max=2)
PAYLOAD = b"x" * 500


async def append_until(stopped: asyncio.Event, writer: WriteHandle) -> int:
    """How many entries were confirmed."""
    count = 0
    while not stopped.is_set():
        assert await writer.append(PAYLOAD + b"%d" % count) == count
        count += 1
    return count


async def restart(bookies: list[BookieProcess]) -> None:
    for bookie in bookies:
        await asyncio.to_thread(bookie.stop)
    for bookie in bookies:
        await asyncio.to_thread(bookie.start)


async def check(client: LedgerClient, writer: WriteHandle, count: int) -> None:
    await writer.close()
    reader = await client.open_ledger(writer.ledger_id)
    read = [entry.payload async for entry in reader.read()]
    assert read == [PAYLOAD + b"%d" % n for n in range(count)]


async def test_rolling_restarts_of_a_whole_cluster_without_a_spare_lose_no_writer(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
        async with LedgerClient(uri, config=QUICK) as client:
            busy, idle = [await client.create_ledger() for _ in range(2)]
            assert await idle.append(PAYLOAD + b"0") == 0
            stopped = asyncio.Event()
            appending = asyncio.create_task(append_until(stopped, busy))
            for bookie in bookies:
                await restart([bookie])
            for pair in ([0, 1], [1, 2], [2, 0]):
                await restart([bookies[n] for n in pair])
            confirmed = busy.last_add_confirmed
            while busy.last_add_confirmed < confirmed + 10:
                assert not appending.done()
                await asyncio.sleep(0.05)
            stopped.set()
            await check(client, busy, await appending)
            assert await idle.append(PAYLOAD + b"1") == 1
            await check(client, idle, 2)


@pytest.mark.long
async def test_five_bookies_restarted_one_after_another_fail_no_append_no_close_and_no_new_ledger(
    tmp_path: Path,
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(5, tmp_path, uri, lease_seconds=3) as bookies:
        async with LedgerClient(uri) as client:
            assert await appends(client, asyncio.ensure_future(restarted(bookies)))
