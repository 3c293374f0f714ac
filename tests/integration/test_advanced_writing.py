"""Appends with ids from the caller, on real bookies: any order, gaps, duplicates."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ledgers import ClientConfig, DuplicateEntry, LedgerClosed, LedgerFenced, NewLedger
from ledgers.aio import LedgerClient
from ledgers.config import MIB
from tests.support.in_process import InProcessCluster, on_bookies, payloads


async def test_advanced_appends_come_in_any_order_and_read_back_in_id_order(client: LedgerClient) -> None:
    writer = await client.create_ledger_adv()
    ids = list(range(300))
    random.Random(5).shuffle(ids)
    futures = {entry_id: await writer.append_async(entry_id, b"%d" % entry_id) for entry_id in ids}
    assert {entry_id: await future for entry_id, future in futures.items()} == {i: i for i in ids}
    await writer.close()
    reader = await client.open_ledger(writer.ledger_id)
    assert await payloads(reader) == [b"%d" % n for n in range(300)]


async def test_a_gap_bounds_the_ledger_and_duplicates_are_refused(client: LedgerClient) -> None:
    writer = await client.create_ledger_adv()
    behind_the_gap = await writer.append_async(2, b"two")
    assert await writer.append(0, b"zero") == 0
    for taken in (0, 2):
        with pytest.raises(DuplicateEntry):
            await writer.append(taken, b"again")
    await writer.flush()
    assert (writer.last_add_confirmed, writer.first_gap) == (0, 1)
    await writer.close()
    with pytest.raises(LedgerClosed, match="entry 1 was never appended"):
        await behind_the_gap
    reader = await client.open_ledger(writer.ledger_id)
    assert await payloads(reader) == [b"zero"]


async def test_the_entry_that_fills_a_gap_passes_a_writer_full_of_later_ones(
    cluster: InProcessCluster,
) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024)
    async with LedgerClient(cluster.uri, config=config) as bounded:
        writer = await bounded.create_ledger_adv()
        futures = [await writer.append_async(n, bytes(300_000)) for n in range(1, 5)]
        waiting = asyncio.create_task(writer.append(5, bytes(300_000)))
        assert await writer.append(0, bytes(300_000)) == 0
        assert [await future for future in futures] == [1, 2, 3, 4]
        assert await waiting == 5
        await writer.close()


async def test_entries_behind_a_gap_fail_with_what_ended_their_writer(client: LedgerClient) -> None:
    writer = await client.create_ledger_adv()
    behind_the_gap = await writer.append_async(1, b"one")
    await client.open_ledger(writer.ledger_id)
    with pytest.raises(LedgerFenced):
        await writer.append(0, b"zero")
    with pytest.raises(LedgerFenced):
        await behind_the_gap
    with pytest.raises(LedgerFenced):
        await writer.append_async(7, b"late")


SMALL = ClientConfig(pending_bytes_max=4 * MIB, lane_backlog_bytes_max=MIB)


@pytest.mark.parametrize("order", ["in order", "backwards", "mixed"])
async def test_what_is_pending_keeps_its_bound_whatever_the_order_and_never_makes_the_lanes_fail(
    tmp_path: Path, order: str
) -> None:
    entries, size = 60, 256 * 1024
    ids = list(range(entries))
    if order == "backwards":  # as far as fits behind a gap
        ids = [first + n for first in range(0, entries, 10) for n in reversed(range(10))]
    if order == "mixed":
        ids = [first + n for first in range(0, entries, 6) for n in (3, 0, 5, 1, 4, 2)]
    async with on_bookies(tmp_path, 3, SMALL) as (_, client):
        writer = await client.create_ledger_adv(NewLedger(ack_quorum=3))
        futures, most = [], 0
        for entry_id in ids:
            futures.append(await writer.append_async(entry_id, bytes(size)))
            most = max(most, writer.unconfirmed_bytes)
        assert await asyncio.gather(*futures) == ids
        assert most < SMALL.pending_bytes_max + 2 * size
        await writer.close()
