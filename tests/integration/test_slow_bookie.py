"""A bookie that stops answering, and how much memory everybody uses meanwhile (rule W6)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from bookledger.cli.processes import bookie_processes
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from tests.support.processes import hung
from tests.support.writing import ConstantWriter

MIB = 1024 * 1024

STALL_SECONDS = float(os.environ.get("BOOKLEDGER_STALL_SECONDS", "6"))
SOAK_BYTES = int(float(os.environ.get("BOOKLEDGER_SOAK_BYTES", "4e8")))
"""The defaults are for every day; `make soak` sets a minute and 5 GB."""

BOOKIE_PRIVATE_BYTES_MAX = 300 * MIB


def private_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_full_info().uss)


async def test_a_stopped_bookie_stops_neither_appends_nor_swells_the_writer(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    config = ClientConfig(lane_backlog_bytes_max=16 * MIB, pending_bytes_max=16 * MIB)
    with bookie_processes(4, tmp_path, uri) as bookies:
        async with asyncio.timeout(STALL_SECONDS + 60), LedgerClient(uri, config=config) as client:
            handle = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            writer = ConstantWriter(handle, size=1000, in_flight=4000)
            writing = asyncio.create_task(writer.run())
            await writer.until_confirmed(20_000)
            before = private_bytes(os.getpid())
            stopped = next(
                b for b in bookies if b.bookie_id == handle.record.fragments[-1].ensemble[0].bookie_id
            )
            loop = asyncio.get_running_loop()
            largest, end = before, loop.time() + STALL_SECONDS
            with hung([stopped]):
                while loop.time() < end:
                    await writer.until_confirmed(2000)
                    largest = max(largest, private_bytes(os.getpid()))
            writer.stopping = True
            await writing
            await handle.close()
            assert len(handle.record.fragments) >= 2, "the stopped bookie was not replaced"
            bound = config.lane_backlog_bytes_max + config.pending_bytes_max
            assert largest - before < 2 * bound + 32 * MIB, f"grew by {(largest - before) / MIB:.0f} MiB"


@pytest.mark.long
async def test_a_bookies_private_memory_stays_small_however_much_passes_through_it(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri) as bookies:
        async with asyncio.timeout(60 + SOAK_BYTES / 10e6), LedgerClient(uri) as client:
            handle = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            writer = ConstantWriter(handle, size=1000, in_flight=4000)
            writing = asyncio.create_task(writer.run())
            largest = 0
            for _ in range(SOAK_BYTES // (20_000 * writer.size)):
                await writer.until_confirmed(20_000)
                largest = max(largest, *(private_bytes(bookie.child.pid) for bookie in bookies))
            writer.stopping = True
            await writing
            await handle.close()
            print(f"{writer.confirmed * writer.size / 1e9:.2f} GB passed, largest {largest / MIB:.0f} MiB")
            assert largest < BOOKIE_PRIVATE_BYTES_MAX
