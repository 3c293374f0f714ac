"""Ten thousand ledgers open at once, a hundred thousand in all, on one bookie: memory of both sides, and its start."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient, WriteHandle

from .processes import private_mib, private_mib_of

OPEN, ALL, ROUNDS = 10_000, 100_000, 10
AT_ONCE = 32


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(1, scratch, uri) as (bookie,):
        print(f"empty: {private_mib(bookie)} MiB", flush=True)
        async with LedgerClient(uri) as client:
            await _measure(client, bookie, int(OPEN * share), int(ALL * share))


async def _measure(client: LedgerClient, bookie: BookieProcess, open_at_once: int, in_all: int) -> None:
    before = private_mib_of(os.getpid())
    writers = await _create(client, open_at_once)
    in_client = private_mib_of(os.getpid()) - before
    print(f"{open_at_once} open: {private_mib(bookie)} MiB, and {in_client} MiB of the client", flush=True)
    rate = await _append_to_each(writers)
    print(f"{rate:.0f} appends a second, one ledger after the other: {private_mib(bookie)} MiB", flush=True)
    for _ in range((in_all - open_at_once) // 1000):
        for writer in await _create(client, 1000):
            await writer.close()
    rate = await _append_to_each(writers)
    print(f"{in_all} in all, {rate:.0f} appends a second: {private_mib(bookie)} MiB", flush=True)
    bookie.kill()
    began = time.monotonic()
    await asyncio.to_thread(bookie.start)
    print(f"start after kill -9: {time.monotonic() - began:.2f} s, {private_mib(bookie)} MiB")
    await asyncio.gather(*(writer.abandon() for writer in writers))


async def _create(client: LedgerClient, count: int) -> list[WriteHandle]:
    some_at_once = asyncio.Semaphore(AT_ONCE)

    async def one() -> WriteHandle:
        async with some_at_once:
            writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            await writer.append(bytes(100))
            return writer

    return await asyncio.gather(*(one() for _ in range(count)))


async def _append_to_each(writers: list[WriteHandle]) -> float:
    began = time.monotonic()
    for _ in range(ROUNDS):
        for future in [await writer.append_async(bytes(100)) for writer in writers]:
            await future
    return len(writers) * ROUNDS / (time.monotonic() - began)
