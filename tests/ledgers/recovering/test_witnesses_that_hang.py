"""A bookie outside the ensemble that answers what it knows, and whose disk hangs, stalls no recovery (rule W8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.wire import ReadReply, ReadRequest
from ledgers.aio import LedgerClient
from ledgers.errors import LedgerRecoveryFailed
from ledgers.recovering import recover, witnesses
from metadata.records.ledger_record import BookieRef, Fragment
from metadata.records.ledger_store import LedgerStore
from tests.support.in_process import QUICK, InProcessCluster, on_bookies


def test_a_witness_whose_disk_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses, "WITNESSES_SECONDS_MAX", 60)
    monkeypatch.setattr(recover, "WITNESS_READ_SECONDS_MAX", 0.1)

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=1)
        for payload in (b"a", b"tells that the first is confirmed"):
            await writer.append(payload)
        (holder,) = writer.record.fragments[0].ensemble
        (name,) = cluster.running.keys() - {holder.bookie_id}
        store = LedgerStore(cluster.store)
        found = await store.read(writer.ledger_id)
        assert found is not None
        named = BookieRef(name, cluster.running[name].bookie.incarnation)
        await store.change(replace(found.record, fragments=(Fragment(0, (named,)),)), found.version)

        bookie, goes_on = cluster.running[holder.bookie_id].bookie, asyncio.Event()
        reads = bookie.read

        async def hangs(request: ReadRequest) -> ReadReply:
            await goes_on.wait()
            return await reads(request)

        monkeypatch.setattr(bookie, "read", hangs)
        patient = replace(QUICK, read_seconds_max=3600, speculative_read_seconds=1)
        async with LedgerClient(cluster.uri, config=patient) as another:
            with pytest.raises(LedgerRecoveryFailed, match=r"proves that entry [01] was confirmed"):
                await another.open_ledger(writer.ledger_id)
            goes_on.set()
            monkeypatch.setattr(recover, "WITNESS_READ_SECONDS_MAX", 60)
            reader = await another.open_ledger(writer.ledger_id)
            assert reader.last_add_confirmed == 1
        await writer.abandon()

    on_bookies(tmp_path, 2, scenario)
