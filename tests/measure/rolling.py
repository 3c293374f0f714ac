"""All bookies of a cluster restarted one after another under load: what appends feel of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient, WriteHandle

BOOKIES = 5
WRITERS = 4
QUIET_SECONDS = 10.0
PAUSE_SECONDS = 0.005
ENTRIES_PER_LEDGER = 500
PAUSE_BETWEEN_SECONDS = 1.0


async def measure(scratch: Path, share: float) -> None:
    uri = f"sqlite://{scratch}/metadata.db"
    with bookie_processes(BOOKIES, scratch, uri, lease_seconds=3) as bookies:
        async with LedgerClient(uri) as client:
            quiet = await appends(client, asyncio.ensure_future(asyncio.sleep(QUIET_SECONDS * share)))
            began = time.monotonic()
            restarting = asyncio.ensure_future(restarted(bookies))
            during = await appends(client, restarting)
            took = time.monotonic() - began
    print(
        f"{BOOKIES} bookies restarted one after another in {took:.1f} s; {WRITERS} writers, no failed append"
    )
    print(f"appends one after the other, quiet       {_told(quiet)}")
    print(f"appends one after the other, restarting  {_told(during)}")


async def restarted(bookies: list[BookieProcess]) -> None:
    """Each is stopped in order and started again."""
    for bookie in bookies:
        await asyncio.to_thread(bookie.stop)
        await asyncio.to_thread(bookie.start)
        await asyncio.sleep(PAUSE_BETWEEN_SECONDS)


async def appends(client: LedgerClient, during: asyncio.Future[None]) -> list[float]:
    """Seconds of every append of all writers while this is awaited. One that fails ends the measurement."""
    found = await asyncio.gather(*(_writes(client, during) for _ in range(WRITERS)))
    during.result()
    return sorted(seconds for of_one in found for seconds in of_one)


async def _writes(client: LedgerClient, during: asyncio.Future[None]) -> list[float]:
    """One ledger after another."""
    seconds: list[float] = []
    while not during.done():
        async with await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
            for _ in range(ENTRIES_PER_LEDGER):
                seconds.append(await _append(writer))
                await asyncio.sleep(PAUSE_SECONDS)
                if during.done():
                    break
    return seconds


async def _append(writer: WriteHandle) -> float:
    began = time.perf_counter()
    await writer.append(bytes(1000))
    return time.perf_counter() - began


def _told(seconds: list[float]) -> str:
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1.0}
    at = {name: seconds[min(len(seconds) - 1, int(share * len(seconds)))] for name, share in shares.items()}
    figures = ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in at.items())
    return f"{figures}, {len(seconds)} appends"
