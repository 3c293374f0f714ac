"""Reading a ledger that is open and whose idle writer has changed its ensemble, on real bookies."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.wire import LacRequest
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from tests.support.aio import until_true
from tests.support.in_process import InProcessCluster, on_bookies, payloads

ENTRIES = 10
LAST = ENTRIES - 1
READERS = 8
"""One after the other: which bookie answers first is chance."""

QUICK_TO_TELL = ClientConfig(retry_replacement_seconds=0.1, idle_lac_seconds=0.05)


async def written(client: LedgerClient, size: int) -> WriteHandle:
    writer = await client.create_ledger(ensemble_size=size, ack_quorum=size)
    for n in range(ENTRIES):
        await writer.append(b"%d" % n)
    return writer


async def until_changed(cluster: InProcessCluster, writer: WriteHandle) -> str:
    """One bookie of the ensemble stops, and another takes its place; its name."""
    before = {bookie.bookie_id for bookie in writer.record.fragments[-1].ensemble}
    await cluster.stop(min(before))

    async def is_changed() -> bool:
        return len(writer.record.fragments) == 2

    await until_true(is_changed)
    (newcomer,) = {bookie.bookie_id for bookie in writer.record.fragments[-1].ensemble} - before
    return newcomer


@pytest.mark.parametrize("has_writer", [True, False])
async def test_a_ledger_whose_ensemble_changed_is_read_to_its_last_confirmed_entry(
    tmp_path: Path, has_writer: bool
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        another = LedgerClient(cluster.uri, config=QUICK_TO_TELL)
        async with another:
            writer = await written(another, 2)
            await until_changed(cluster, writer)
            if has_writer:
                await all_read(client, writer.ledger_id)
        await all_read(client, writer.ledger_id)


async def all_read(client: LedgerClient, ledger_id: int) -> None:
    for _ in range(READERS):
        reader = await client.open_ledger(ledger_id, recovery=False)
        assert await payloads(reader) == [b"%d" % n for n in range(ENTRIES)]
        assert await reader.try_read_last_add_confirmed() == LAST


async def test_confirmed_entries_whose_only_bookie_is_gone_are_missed_and_not_passed_over(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 2) as (cluster, client):
        writer = await written(client, 1)
        await until_changed(cluster, writer)
        for _ in range(READERS):
            reader = await client.open_ledger(writer.ledger_id, recovery=False)
            assert reader.last_add_confirmed == LAST


async def test_an_idle_writer_tells_a_bookie_that_joins_what_is_confirmed(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, QUICK_TO_TELL) as (cluster, client):
        writer = await written(client, 2)
        newcomer = await until_changed(cluster, writer)
        reader = await client.open_ledger(writer.ledger_id, recovery=False)
        bookie = next(one for one in writer.record.fragments[-1].ensemble if one.bookie_id == newcomer)

        async def is_told() -> bool:
            request = LacRequest(bookie.incarnation, writer.ledger_id, identity=writer.record.identity)
            reply = await reader._view.cluster.bookies.last_add_confirmed(bookie, request)
            return reply.last_add_confirmed is not None and reply.last_add_confirmed.last_entry == LAST

        await until_true(is_told)
