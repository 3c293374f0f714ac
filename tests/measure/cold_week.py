"""A log of a week on bookies whose disks hold an hour of it: written, offloaded, and read from its beginning at once.

An hour is HOUR_BYTES here. Each bookie has a tmpfs of DISK_BYTES, so the measure takes root; the object store is a
directory, or what BOOKLEDGER_COLD names.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bookledger.cli.processes import BookieProcess, started
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from metadata.rate_limit import RateLimit
from tests.support.mounts import small_disk

HOUR_BYTES = 50_000_000
HOURS = 168
DISK_BYTES = 192 * 1024**2
BYTES_PER_SECOND = 12_000_000
RECORD_BYTES = 1000
BATCH_RECORDS = 1000
SEGMENT_RECORDS = 10_000
FULL_PERCENT = 25
COLLECT_SECONDS = 5.0


async def measure(scratch: Path, share: float) -> None:
    hours = max(2, int(HOURS * share))
    (scratch / "archive").mkdir()
    url = os.environ.get("BOOKLEDGER_COLD", f"file://{scratch}/archive")
    uri = f"sqlite://{scratch}/metadata.db"
    with _bookies_on_small_disks(uri) as disks:
        async with LedgerClient(uri) as client:
            await _write_offload_and_read(client, uri, url, disks, hours * HOUR_BYTES // RECORD_BYTES)


@contextmanager
def _bookies_on_small_disks(uri: str) -> Iterator[list[Path]]:
    with ExitStack() as stack:
        disks = [stack.enter_context(small_disk(str(DISK_BYTES))) for _ in range(3)]
        options = ("--segment-size=16",)
        bookies = [
            BookieProcess(f"b{n}", disk / "data", uri, options=options) for n, disk in enumerate(disks)
        ]
        stack.enter_context(started(bookies))
        yield disks


async def _write_offload_and_read(
    client: LedgerClient, uri: str, url: str, disks: list[Path], records: int
) -> None:
    log = await client.create_log("week", roll_records=SEGMENT_RECORDS)
    began, most = time.monotonic(), [0]
    age = ("--after=1e9", f"--disk-above={FULL_PERCENT}", "--keep=0", "--every=1")
    offloader = await _command("offloader", f"--metadata={uri}", f"--cold={url}", *age)
    beside = [asyncio.create_task(_collect(uri)), asyncio.create_task(_watch(disks, most))]
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_write(log, records))
            reading = group.create_task(_read(log, records))
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        offloader.terminate()
        await offloader.wait()
    size, disk = records * RECORD_BYTES, sum(shutil.disk_usage(one).total for one in disks)
    held = disk / 3 / size  # three copies of each record
    print(
        f"log of {size / 1e9:.1f} GB: {reading.result()} records read from its beginning while it was written, in "
        f"{time.monotonic() - began:.0f} s, {size / 1e6 / (time.monotonic() - began):.1f} MB/s. Disks of "
        f"{disk / 1e6:.0f} MB in all hold {held:.1%} of it; bookies used {most[0] / 1e6:.0f} MB at most",
        flush=True,
    )


async def _write(log: Log, records: int) -> None:
    pace, payload = RateLimit(BYTES_PER_SECOND), os.urandom(RECORD_BYTES // 8) * 8
    async with await log.writer() as writer:
        for start in range(0, records, BATCH_RECORDS):
            await pace.keep(BATCH_RECORDS * RECORD_BYTES)
            batch = [(start + n).to_bytes(8, "big") + payload[8:] for n in range(BATCH_RECORDS)]
            await writer.append_batch(batch)


async def _read(log: Log, records: int) -> int:
    """Reads from the beginning again and again: each record once in the last pass, which ends with the log."""
    position = 0
    while position < records:
        async for batch in log.tail_batches(position, timeout=5):
            for number, payload in zip(batch.positions, batch.payloads, strict=True):
                assert int.from_bytes(payload[:8], "big") == number == position, (number, position)
                position += 1
    return position


async def _collect(uri: str) -> None:
    while True:
        command = await _command("bookie", "gc", "run", "--all", f"--metadata={uri}")
        await command.wait()
        await asyncio.sleep(COLLECT_SECONDS)


async def _watch(disks: list[Path], most: list[int]) -> None:
    while True:
        most[0] = max(most[0], sum(shutil.disk_usage(one).used for one in disks))
        await asyncio.sleep(0.5)


async def _command(*arguments: str) -> asyncio.subprocess.Process:
    nowhere = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bookledger", *arguments, stdout=nowhere, stdin=nowhere
    )
