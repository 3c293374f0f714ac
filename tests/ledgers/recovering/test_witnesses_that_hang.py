"""Bookies outside the ensemble that answer what they know, and whose disk hangs (rule W8)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.storage.bookie import Bookie
from bookie.wire import ReadReply, ReadRequest
from ledgers.aio import LedgerClient
from ledgers.recovering import recover, witnesses
from metadata.records.ledger_record import BookieRef, Fragment
from metadata.records.ledger_store import LedgerStore
from tests.support.in_process import QUICK, on_bookies, payloads

PATIENT = replace(QUICK, read_seconds_max=3600, speculative_read_seconds=1)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are heard, and who is read with the limit of witnesses does not answer in time."""
    monkeypatch.setattr(witnesses, "WITNESSES_SECONDS_MAX", 60)
    monkeypatch.setattr(recover, "WITNESS_READ_SECONDS_MAX", 0)


class HungReads:
    """The bookie's reads wait until `goes_on`."""

    def __init__(self, bookie: Bookie, patch: pytest.MonkeyPatch) -> None:
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()
        self._reads = bookie.read
        patch.setattr(bookie, "read", self._read)

    async def _read(self, request: ReadRequest) -> ReadReply:
        self.asked.set()
        await self.goes_on.wait()
        return await self._reads(request)


async def test_one_that_left_before_the_last_fragment_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1)
        (former,) = map(str, writer.record.fragments[0].ensemble)
        await writer.append(b"there")
        await cluster.stop(former)
        await writer.append(b"elsewhere")
        await cluster.start(former)
        hung = HungReads(cluster.running[former].bookie, monkeypatch)
        async with LedgerClient(cluster.uri, config=PATIENT) as another:
            reader = await another.open_ledger(writer.ledger_id)
            assert hung.asked.is_set()
            assert reader.last_add_confirmed == 1
        hung.goes_on.set()
        await writer.abandon()


async def test_one_that_proves_the_record_to_be_older_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1)
        sent = [b"a", b"tells that the first is confirmed"]
        for payload in sent:
            await writer.append(payload)
        (holder,) = writer.record.fragments[0].ensemble
        (name,) = cluster.running.keys() - {holder.bookie_id}
        store = LedgerStore(cluster.store)
        found = await store.read(writer.ledger_id)
        assert found is not None
        named = BookieRef(name, cluster.running[name].bookie.incarnation)
        await store.change(replace(found.record, fragments=(Fragment(0, (named,)),)), found.version)
        hung = HungReads(cluster.running[holder.bookie_id].bookie, monkeypatch)
        async with LedgerClient(cluster.uri, config=PATIENT) as another:
            opening = asyncio.ensure_future(another.open_ledger(writer.ledger_id))
            await hung.asked.wait()
            hung.goes_on.set()
            assert await payloads(await opening) == sent
        await writer.abandon()
