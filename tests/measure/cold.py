"""Offloading beside obstore alone, and beside appends.

BOOKLEDGER_COLD names the object store; without it, it is a directory.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

import obstore
from obstore.store import ObjectStore

from bookledger.cli.processes import bookie_processes
from ledgers.aio import LedgerClient
from ledgers.cold.object_store import Objects
from ledgers.config import MIB
from ledgers.offloading.offloader import ELECTION
from ledgers.offloading.policy import OffloadPolicy

ROUND_BYTES = 900_000_000
"""So many that what a round costs whatever it copies, such as its listing, does not count."""

BESIDE_BYTES = 300_000_000
ENTRY_BYTES = 1000
LEDGERS = 4
ROUNDS = 3
APPEND_SECONDS = 8.0
PACE_BYTES = 50_000_000


async def measure(scratch: Path, share: float) -> None:
    url = os.environ.get("BOOKLEDGER_COLD", f"file://{scratch}/archive")
    (scratch / "archive").mkdir()
    print(f"object store: {url.partition(':')[0]}", flush=True)
    uri = f"sqlite://{scratch}/metadata.db"
    (scratch / "bookies").mkdir()
    with bookie_processes(3, scratch / "bookies", uri):
        async with LedgerClient(uri) as client:
            await _beside_obstore(client, url, int(ROUND_BYTES * share))
            await _beside_appends(client, uri, url, int(BESIDE_BYTES * share))


async def _written(client: LedgerClient, size: int) -> int:
    pool = os.urandom(size)
    async with await client.create_ledger() as writer:
        for start in range(0, size, 100 * ENTRY_BYTES):
            batch = [pool[n : n + ENTRY_BYTES] for n in range(start, start + 100 * ENTRY_BYTES, ENTRY_BYTES)]
            await asyncio.gather(*[writer.append(one) for one in batch if one])
    return writer.ledger_id


async def _beside_obstore(client: LedgerClient, url: str, size: int) -> None:
    """Rounds of the offloader with several ledgers; in turns, ratios of one turn, and their median."""
    up, down = [], []
    for _ in range(ROUNDS):
        ledger_ids = [await _written(client, size // LEDGERS) for _ in range(LEDGERS)]
        plain_up, plain_down = await _plain(url, size)
        offloader = await client.offloader(url, OffloadPolicy(after_seconds=0, keep_seconds=0))
        async with client.election(ELECTION).lead() as term:
            began = time.monotonic()
            assert not (await offloader.round(term)).failed
            offloaded = time.monotonic() - began
        began = time.monotonic()
        for ledger_id in ledger_ids:
            async for _ in (await client.open_ledger(ledger_id)).pages():
                pass
        read = time.monotonic() - began
        up.append(plain_up / offloaded)
        down.append(plain_down / read)
        print(
            f"upload: obstore {size / 1e6 / plain_up:.0f} MB/s, offload with its reading back "
            f"{size / 1e6 / offloaded:.0f}: {up[-1]:.2f}; download: obstore {size / 1e6 / plain_down:.0f}, "
            f"read {size / 1e6 / read:.0f}: {down[-1]:.2f}",
            flush=True,
        )
    print(f"median ratios: upload {statistics.median(up):.2f}, download {statistics.median(down):.2f}")


async def _plain(url: str, size: int) -> tuple[float, float]:
    """Seconds that obstore alone takes to upload so much, and to download it."""
    async with Objects(url)._call("plain", "used", is_bounded=False) as store:
        return await _plain_calls(store, size)


async def _plain_calls(store: ObjectStore, size: int) -> tuple[float, float]:
    block = os.urandom(8 * MIB)
    began = time.monotonic()
    upload = obstore.open_writer_async(store, "plain", buffer_size=8 * MIB, max_concurrency=4)
    for _ in range(size // len(block)):
        await upload.write(block)
    await upload.close()
    up, began = time.monotonic() - began, time.monotonic()
    for start in range(0, size // len(block) * len(block), len(block)):
        await obstore.get_range_async(store, "plain", start=start, end=start + len(block))
    down = time.monotonic() - began
    await obstore.delete_async(store, "plain")
    whole = size / (size // len(block) * len(block))
    return up * whole, down * whole


async def _appended(client: LedgerClient, seconds: float) -> float:
    """MB/s of a writer with a hundred entries under way."""
    payload, count = os.urandom(ENTRY_BYTES), 0
    began = time.monotonic()
    async with await client.create_ledger() as writer:
        while time.monotonic() - began < seconds:
            await asyncio.gather(*[writer.append(payload) for _ in range(100)])
            count += 100
    return count * ENTRY_BYTES / 1e6 / (time.monotonic() - began)


async def _beside_appends(client: LedgerClient, uri: str, url: str, size: int) -> None:
    """An offloader in a process of its own that is held to a rate, as operators hold it."""
    for _ in range(2):
        await _written(client, size)
    alone = await _appended(client, APPEND_SECONDS)
    command = ("-m", "bookledger", "offloader", f"--metadata={uri}", f"--cold={url}", "--after=0", "--keep=0")
    rate = f"--rate={PACE_BYTES}"
    offloader = await asyncio.create_subprocess_exec(
        sys.executable, *command, rate, "--every=1", stdout=asyncio.subprocess.DEVNULL
    )
    await asyncio.sleep(1)
    beside = await _appended(client, APPEND_SECONDS)
    is_running = offloader.returncode is None
    offloader.terminate()
    await offloader.wait()
    print(
        f"appends alone {alone:.0f} MB/s, beside an offloader of {PACE_BYTES / 1e6:.0f} MB/s {beside:.0f}: "
        f"{beside / alone:.2f} (which {'ran' if is_running else 'had ended'})",
        flush=True,
    )
