"""Appends one after the other, on a quiet bookie and while it compacts: what compaction adds to their latency."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from pathlib import Path

from bookie.wire.messages import MaintainRequest, MaintenanceAction
from bookledger.cli.processes import bookie_processes
from ledgers.aio import LedgerClient, WriteHandle

BYTES = 2e9
ENTRY_BYTES = 10_000
QUIET_SECONDS = 15.0
PAUSE_SECONDS = 0.002
COLLECT = MaintainRequest(MaintenanceAction.COLLECT)


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(1, scratch, uri):
        async with LedgerClient(uri) as client:
            await _half_dead(client, int(BYTES * share / ENTRY_BYTES / 2))
            writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            quiet = await _latencies(writer, asyncio.sleep(QUIET_SECONDS))
            [bookie] = await client.list_bookies()
            busy = await _latencies(writer, client.maintain_bookie(bookie.bookie, COLLECT, 3600))
            print(f"quiet      {_told(quiet)}\ncompacting {_told(busy)}")
            print(f"p99 while compacting / quiet: {_quantile(busy, 0.99) / _quantile(quiet, 0.99):.2f}")


async def _half_dead(client: LedgerClient, entries: int) -> None:
    """Two ledgers entry by entry by turns, and then one of them is deleted."""
    payload = os.urandom(ENTRY_BYTES)
    writers = [await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1) for _ in range(2)]
    for _ in range(entries):
        for writer in writers:
            await writer.append_async(payload)
    for writer in writers:
        await writer.close()
    await client.delete_ledger(writers[0].ledger_id)


async def _latencies(writer: WriteHandle, during: Awaitable[object]) -> list[float]:
    """Seconds of each append while this is awaited."""
    waiting = asyncio.ensure_future(during)
    seconds: list[float] = []
    while not waiting.done():
        began = time.perf_counter()
        await writer.append(bytes(1000))
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    await waiting
    return sorted(seconds)


def _quantile(seconds: list[float], share: float) -> float:
    return seconds[min(len(seconds) - 1, int(len(seconds) * share))]


def _told(seconds: list[float]) -> str:
    found = (
        f"{name} {_quantile(seconds, share) * 1000:.2f} ms" for name, share in (("p50", 0.5), ("p99", 0.99))
    )
    return f"{len(seconds)} appends, {', '.join(found)}, at most {seconds[-1] * 1000:.1f} ms"
