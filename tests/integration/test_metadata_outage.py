"""A ledger while etcd is away: appends go on, changes wait, registrations come back (rules W4, M1, M2)."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers.aio import LedgerClient
from ledgers.protocol.phase import Phase
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from tests.support.aio import until_true
from tests.support.etcd import EtcdServer
from tests.support.proxy import Proxy
from tests.support.writing import ConstantWriter, copies_of_every_entry, payload_of


async def test_appends_go_on_without_etcd_and_a_change_begun_meanwhile_is_made_when_it_is_back(
    tmp_path: Path, own_etcd: EtcdServer
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/outage?timeout=2"
    with bookie_processes(4, tmp_path, uri, lease_seconds=3) as bookies:
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


async def test_changes_whose_answers_are_lost_are_recognised_and_nothing_is_lost(
    tmp_path: Path, etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F17 on a real etcd: the change is applied, its answer vanishes, the writer finds its own nonce."""
    prefix, change = uuid.uuid4().hex, LedgerStore.change
    direct = f"etcd://{etcd.endpoint}/{prefix}"
    with bookie_processes(4, tmp_path, direct) as bookies:
        async with (
            Proxy(etcd.port) as proxy,
            LedgerClient(f"etcd://127.0.0.1:{proxy.port}/{prefix}?timeout=1") as client,
            LedgerClient(direct) as witness,
        ):
            handle = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            writer = ConstantWriter(handle)
            writing = asyncio.create_task(writer.run())
            await writer.until_confirmed(500)
            ensemble = {bookie.bookie_id for bookie in handle.record.fragments[-1].ensemble}

            async def changes_and_loses_the_answer(
                self: LedgerStore, *asked: Any, **named: Any
            ) -> VersionedRecord:
                """What is looked up before must get through; the change itself must lose its answer."""
                proxy.drop_replies()
                return await change(self, *asked, **named)

            monkeypatch.setattr(LedgerStore, "change", changes_and_loses_the_answer)
            next(one for one in bookies if one.bookie_id in ensemble).kill()

            async def applied() -> bool:
                return len((await witness.describe_ledger(handle.ledger_id)).fragments) == 2

            await until_true(applied)
            standing = writer.confirmed
            assert handle._machine.phase is Phase.CHANGING, (
                "nothing is confirmed while the outcome is unknown (W4)"
            )
            monkeypatch.setattr(LedgerStore, "change", change)
            proxy.forward()
            await writer.until_confirmed(500)
            assert writer.confirmed > standing
            writer.stopping = True
            await writing
            await handle.close()
            record = await witness.describe_ledger(handle.ledger_id)
            assert len(record.fragments) == 2, "one change, however often it was asked for"
            last = writer.confirmed - 1
            copies = await copies_of_every_entry(witness, record, last, lambda i: payload_of(i, writer.size))
            assert min(copies[entry_id] for entry_id in range(last + 1)) >= 2


async def test_a_bookie_that_starts_while_etcd_is_away_waits_says_so_and_serves_when_it_is_back(
    tmp_path: Path, own_etcd: EtcdServer
) -> None:
    uri = f"etcd://{own_etcd.endpoint}/start?timeout=1"
    with bookie_processes(3, tmp_path, uri) as bookies:
        late = bookies[0]
        late.kill()
        own_etcd.kill()
        late.launch()
        while "waiting for the metadata to answer before serving" not in late.log.read_text():
            assert late.child.is_alive
            await asyncio.sleep(0.05)
        own_etcd.restart()
        late.await_ready()
        async with LedgerClient(uri) as client, await client.create_ledger(ensemble_size=3) as writer:
            assert await writer.append(b"all three serve") == 0
