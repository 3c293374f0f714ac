"""Real bookies, killed with SIGKILL at any moment: nothing confirmed is lost (rules W3, B1, B2)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from tests.support.writing import ConstantWriter, copies_of_every_entry, payload_of

ROUNDS = 8
# A writer whose last bookie is gone waits for it this long.
QUICK = ClientConfig(append_seconds_max=2, append_quorum_seconds_max=2)


async def every_entry_has_its_ack_quorum(
    client: LedgerClient, ledger_id: int, writer: ConstantWriter
) -> None:
    record = await client.describe_ledger(ledger_id)
    last = writer.confirmed - 1
    copies = await copies_of_every_entry(client, record, last, lambda i: payload_of(i, writer.size))
    thin = [entry_id for entry_id in range(last + 1) if copies[entry_id] < record.shape.ack_quorum]
    assert thin == [], f"of {record.fragments}"
    reader = await client.open_ledger(ledger_id)
    assert reader.last_add_confirmed >= last
    read = [entry async for entry in reader.read(0, last)]
    assert [entry.entry_id for entry in read] == list(range(last + 1))
    assert all(entry.payload == payload_of(entry.entry_id, writer.size) for entry in read)


async def test_all_bookies_killed_at_once_have_every_confirmed_entry_when_they_are_back(
    tmp_path: Path,
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2) as bookies:
        async with LedgerClient(uri, config=QUICK) as client:
            handle = await client.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2)
            writer = ConstantWriter(handle)
            writing = asyncio.create_task(writer.run())
            await writer.until_confirmed(2100)
            for bookie in bookies:
                bookie.kill()
            # Nobody is left: the writer ends, and what it was told before stands.
            with pytest.raises(BaseExceptionGroup):
                await writing
            await handle.abandon()
            for bookie in bookies:
                bookie.start()
        async with LedgerClient(uri) as client:
            await every_entry_has_its_ack_quorum(client, handle.ledger_id, writer)


@pytest.mark.long
async def test_a_bookie_killed_again_and_again_while_it_writes_starts_every_time_with_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    """One bookie, ack quorum 1: whatever was confirmed is on this disk or nowhere."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    rng = random.Random(7)

    async def write_until_killed(bookie: BookieProcess) -> tuple[int, ConstantWriter]:
        async with LedgerClient(uri, config=QUICK) as client:
            handle = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
            writer = ConstantWriter(handle)
            writing = asyncio.create_task(writer.run())
            await writer.until_confirmed(rng.randrange(1, 3000))
            bookie.kill()
            with pytest.raises(BaseExceptionGroup):
                await writing
            await handle.abandon()
            return handle.ledger_id, writer

    with bookie_processes(1, tmp_path, uri, lease_seconds=2) as (bookie,):
        written: list[tuple[int, ConstantWriter]] = []
        for _ in range(ROUNDS):
            written.append(await write_until_killed(bookie))
            bookie.start()
            async with LedgerClient(uri) as client:
                for ledger_id, writer in written:
                    await every_entry_has_its_ack_quorum(client, ledger_id, writer)
