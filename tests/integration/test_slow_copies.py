"""Copies that are slower than the ack quorum: closing and recovering give them a little time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from tests.support.processes import ProcessCluster, on_processes
from tests.support.writing import copies_of_every_entry

MIB = 1024 * 1024
PATIENT = ClientConfig(close_drain_seconds_max=20)
ENTRIES = 12
"""Of 1 MiB: more than a stream has on its way, so that some still wait in the client when it closes."""


def payload(entry_id: int) -> bytes:
    return bytes([entry_id]) * MIB


def test_C1_a_close_waits_for_the_copies_of_a_slow_bookie(tmp_path: Path) -> None:
    async def scenario(cluster: ProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        slow = writer.record.fragments[0].ensemble[0]
        cluster.pause(slow)
        futures = [await writer.append_async(payload(n)) for n in range(ENTRIES)]
        await asyncio.gather(*futures)
        closing = asyncio.create_task(writer.close())
        done, _ = await asyncio.wait([closing], timeout=1)
        assert not done, "a copy is missing still"
        cluster.resume_all()
        await closing
        copies = await copies_of_every_entry(client, writer.record, ENTRIES - 1, payload)
        assert set(copies.values()) == {3}

    on_processes(tmp_path, 3, scenario, PATIENT)
