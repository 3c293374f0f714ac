"""Copies that are slower than the ack quorum: they are waited for as long as they move (rule W6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ledgers import ClientConfig
from metadata.records.ledger_record import BookieRef
from tests.support.processes import ProcessCluster, on_processes
from tests.support.writing import ConstantWriter, copies_of_every_entry, payload_of

MIB = 1024 * 1024
SLOW_SECONDS = float(os.environ.get("BOOKLEDGER_SLOW_SECONDS", "4"))
HASTY = ClientConfig(lane_backlog_bytes_max=4 * MIB, pending_bytes_max=4 * MIB)


@asynccontextmanager
async def slowed_down(cluster: ProcessCluster, bookie: BookieRef) -> AsyncIterator[None]:
    """Inside, the bookie stands still for 150 of every 200 ms."""

    async def slow_down() -> None:
        while True:
            cluster.pause(bookie)
            await asyncio.sleep(0.15)
            cluster.resume_all()
            await asyncio.sleep(0.05)

    slowing = asyncio.create_task(slow_down())
    try:
        yield
    finally:
        slowing.cancel()
        await asyncio.wait([slowing])
        cluster.resume_all()


async def test_a_bookie_at_a_quarter_of_its_speed_has_every_entry_when_the_ledger_is_closed(
    tmp_path: Path,
) -> None:
    """There is no fourth bookie, so the appends go as fast as the slow one does, once it is behind its bound."""
    async with on_processes(tmp_path, 3, HASTY) as (cluster, client):
        handle = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        slow = handle.record.fragments[0].ensemble[0]
        writer = ConstantWriter(handle, size=1000, in_flight=4000)
        async with slowed_down(cluster, slow):
            writing = asyncio.create_task(writer.run())
            await asyncio.sleep(SLOW_SECONDS)
            writer.stopping = True
            await writing
            await handle.close()
        (fragment,) = handle.record.fragments
        assert not fragment.lacking
        copies = await copies_of_every_entry(
            client, handle.record, writer.confirmed - 1, lambda n: payload_of(n, 1000)
        )
        assert len(copies) == writer.confirmed and set(copies.values()) == {3}
