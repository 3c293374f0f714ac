"""Recoveries of one ledger at once or after one another (rule R5), and what those leave that did not end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ledgers.aio import LedgerClient
from ledgers.errors import MetadataUnavailable
from ledgers.protocol.ledger_effects import RecoveryEffect
from ledgers.record_change import RecordVersion
from metadata.records.ledger_record import LedgerRecord
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads


async def abandoned(cluster: InProcessCluster, client: LedgerClient) -> int:
    """Five entries at two bookies, of which one is gone, and so is their writer."""
    writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
    for n in range(5):
        await writer.append(b"%d" % n)
    await writer.abandon()
    await cluster.stop(str(writer.record.fragments[-1].ensemble[-1]))
    return writer.ledger_id


async def is_whole(client: LedgerClient, ledger_id: int) -> None:
    assert await payloads(await client.open_ledger(ledger_id)) == [b"%d" % n for n in range(5)]


async def test_what_a_recovery_wrote_back_that_did_not_end_keeps_no_other_from_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bookie that it chose in place of the one that is gone is named by no record, and knows the LAC."""
    async with on_bookies(tmp_path, 4) as (cluster, client):
        ledger_id = await abandoned(cluster, client)

        async def is_away(_: RecordVersion, record: LedgerRecord, machine: object) -> list[RecoveryEffect]:
            raise MetadataUnavailable("just before the close")

        with monkeypatch.context() as patch:
            patch.setattr(RecordVersion, "change", is_away)
            with pytest.raises(MetadataUnavailable):
                await client.open_ledger(ledger_id)
        await is_whole(client, ledger_id)


async def test_two_at_once_come_to_the_same_end_where_a_bookie_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 4) as (cluster, client):
        ledger_id = await abandoned(cluster, client)
        change, is_about_to_close, goes_on = RecordVersion.change, asyncio.Event(), asyncio.Event()

        async def waits(self: RecordVersion, *args: Any) -> Any:
            is_about_to_close.set()
            await goes_on.wait()
            return await change(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(RecordVersion, "change", waits)
            first = asyncio.ensure_future(is_whole(client, ledger_id))
            await is_about_to_close.wait()
        async with LedgerClient(cluster.uri, config=QUICK) as another:
            await is_whole(another, ledger_id)
        goes_on.set()
        await first
