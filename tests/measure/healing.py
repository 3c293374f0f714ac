"""A bookie is lost for good: how soon every copy is there again, and what appends feel of it meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from bookledger.cluster import health
from bookledger.cluster.survey import survey
from ledgers.aio import LedgerClient, WriteHandle
from metadata import opened_store
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind

BYTES = 6e9
"""Payload; each of four bookies holds three quarters of it."""

LEDGER_BYTES = 100_000_000
ENTRY_BYTES = 10_000
QUIET_SECONDS = 15.0
PAUSE_SECONDS = 0.002
LOOK_SECONDS = 0.5


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(4, scratch, uri, lease_seconds=3) as bookies:
        async with LedgerClient(uri) as client:
            await _filled(client, BYTES * share)
            writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            quiet = await _latencies(writer, asyncio.ensure_future(asyncio.sleep(QUIET_SECONDS)))
            ensemble = {bookie.bookie_id for bookie in writer.record.fragments[0].ensemble}
            lost = next(bookie for bookie in bookies if bookie.bookie_id not in ensemble)
            held = sum(file.stat().st_size for file in lost.directory.rglob("*") if file.is_file())
            lost.kill()
            began = time.monotonic()
            healing = asyncio.ensure_future(_whole_without(uri, lost.bookie_id))
            busy = await _latencies(writer, healing)
            took = time.monotonic() - began
            await writer.close()
    print(f"{held / 1e9:.2f} GB were lost; whole again after {took:.0f} s, {held / took / 1e6:.0f} MB/s")
    print(f"appends one after the other, quiet      {_told(quiet)}")
    print(f"appends one after the other, healing    {_told(busy)}")


async def _filled(client: LedgerClient, total: float) -> None:
    payload = os.urandom(ENTRY_BYTES)
    for _ in range(max(1, int(total / LEDGER_BYTES))):
        async with await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            for _ in range(LEDGER_BYTES // ENTRY_BYTES):
                await writer.append_async(payload)


async def _whole_without(uri: str, lost: str) -> None:
    """Gives the bookie up, and returns when nothing refers to it and all is whole."""
    async with opened_store(uri) as store:
        await operator_requests.give(store, Order(lost, OrderKind.GIVEN_UP, 0))
        while True:
            seen = await survey(store, wait_ms=0)
            assert seen is not None
            if (
                health.is_whole(seen)
                and not seen.marks
                and all(ref.bookie_id != lost for ref in seen.holdings)
            ):
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _latencies(writer: WriteHandle, during: asyncio.Future[None]) -> list[float]:
    """Seconds of each append while this is awaited."""
    seconds: list[float] = []
    while not during.done():
        began = time.perf_counter()
        await writer.append(bytes(1000))
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    during.result()
    return sorted(seconds)


def _told(seconds: list[float]) -> str:
    at = [seconds[min(len(seconds) - 1, int(share * len(seconds)))] * 1000 for share in (0.5, 0.99)]
    return f"p50 {at[0]:.1f} ms, p99 {at[1]:.1f} ms, {len(seconds)} appends"
