"""How long a bookie that holds 10 GB takes to start, after a stop and after kill -9, and its memory meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient

from .processes import log_bytes, private_mib

ENTRY_BYTES = 1000
ENTRIES = 10_000_000
PARTS = 5


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(1, scratch, uri) as (bookie,):
        for part in range(PARTS):
            await _fill(uri, bookie, int(ENTRIES * share / PARTS), is_last=part == PARTS - 1)
        print(f"{log_bytes(bookie) / 1e9:.1f} GB of log")
        bookie.stop()
        print(f"start after a stop: {_start(bookie):.2f} s, {private_mib(bookie)} MiB")


async def _fill(uri: str, bookie: BookieProcess, entries: int, *, is_last: bool) -> None:
    payload, began = os.urandom(ENTRY_BYTES), time.monotonic()
    async with LedgerClient(uri) as client:
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        for _ in range(entries):
            await writer.append_async(payload)
        await writer.flush()
        rate = entries * ENTRY_BYTES / 1e6 / (time.monotonic() - began)
        print(f"{rate:.0f} MB/s, {private_mib(bookie)} MiB", flush=True)
        if is_last:
            bookie.kill()
            seconds = await asyncio.to_thread(_start, bookie)
            print(f"start after kill -9: {seconds:.2f} s, {private_mib(bookie)} MiB")
            await writer.abandon()
        else:
            await writer.close()


def _start(bookie: BookieProcess) -> float:
    began = time.monotonic()
    bookie.start()
    return time.monotonic() - began
