"""A ledger while etcd is away: appends go on, changes wait, registrations come back (rules W4, M1, M2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ledgers.aio import LedgerClient
from ledgers.cli.processes import BookieProcess, bookie_processes
from tests.support.aio import run, until_true
from tests.support.etcd import EtcdServer
from tests.support.writing import ConstantWriter, copies_of_every_entry, payload_of


def test_M2_appends_go_on_without_etcd_and_a_change_begun_meanwhile_is_made_when_it_is_back(
    tmp_path: Path, own_etcd: EtcdServer
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/outage?timeout=2"

    async def scenario(bookies: list[BookieProcess]) -> None:
        async with LedgerClient(uri) as client:
            handle = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            writer = ConstantWriter(handle)
            writing = asyncio.create_task(writer.run())
            await writer.until_confirmed(500)
            own_etcd.kill()
            await writer.until_confirmed(500)
            victim = handle.record.fragments[-1].ensemble[1].bookie_id
            next(bookie for bookie in bookies if bookie.bookie_id == victim).kill()
            own_etcd.restart()

            async def changed() -> bool:
                return len(handle.record.fragments) > 1

            await until_true(changed)
            await writer.until_confirmed(500)

            async def registered_again() -> bool:
                return len(await client.list_bookies()) == 3

            await until_true(registered_again)
            writer.stopping = True
            await writing
            await handle.close()
            last = writer.confirmed - 1
            record = await client.describe_ledger(handle.ledger_id)
            copies = await copies_of_every_entry(client, record, last, lambda i: payload_of(i, writer.size))
            assert min(copies[entry_id] for entry_id in range(last + 1)) >= 2

    with bookie_processes(4, tmp_path, uri, lease_seconds=3) as bookies:
        run(scenario(bookies), timeout_seconds=120)
