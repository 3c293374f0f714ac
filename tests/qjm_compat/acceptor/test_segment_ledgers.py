"""Segments as ledgers, on real bookies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from ledgers import Entry
from ledgers.aio import LedgerClient, ReadHandle
from metadata.records.journal_record import JournalState, JournalStorage, SegmentRecord, decode_state
from qjm_compat import JournalConfig, JournalUnavailable, SegmentUnreadable
from qjm_compat.acceptor.acceptor_ledgers import (
    JOURNAL_OF_LEDGER,
    SEGMENT_OF_LEDGER,
    AcceptorLedgers,
    NewSegment,
)
from qjm_compat.acceptor.programs.acceptor_effects import LedgerEnd
from qjm_compat.batch import PART_BYTES_MAX, Batch, entries_of
from tests.support.aio import until_true
from tests.support.in_process import on_bookies


@asynccontextmanager
async def on_ledgers(tmp_path: Path) -> AsyncIterator[tuple[LedgerClient, AcceptorLedgers]]:
    async with on_bookies(tmp_path, 3) as (_, client):
        yield client, ledgers_of(client)


def ledgers_of(client: LedgerClient) -> AcceptorLedgers:
    return AcceptorLedgers(client, "ns1", "main", JournalConfig())


def batch_of(first_txid: int, num_txns: int, size: int = 100, committed_txid: int | None = None) -> Batch:
    return Batch(first_txid, num_txns, bytes([first_txid % 251]) * size, committed_txid, 1)


BATCHES = [
    batch_of(1, 3),
    batch_of(4, 1, 2 * PART_BYTES_MAX + 5, committed_txid=3),
    batch_of(5, 10, committed_txid=4),
    batch_of(15, 2, PART_BYTES_MAX, committed_txid=14),
    batch_of(17, 1, PART_BYTES_MAX + 1, committed_txid=16),
    batch_of(18, 5, committed_txid=17),
]


async def write_all(ledgers: AcceptorLedgers, ledger_id: int, batches: list[Batch]) -> None:
    for appended in [await ledgers.append(ledger_id, batch) for batch in batches]:
        await appended.confirmed()


async def read_all(ledgers: AcceptorLedgers, ledger_id: int, from_txid: int = 1) -> list[Batch]:
    async with aclosing(ledgers.batches(ledger_id, from_txid)) as batches:
        return [batch async for batch in batches]


async def test_batches_large_and_small_come_back_in_order_from_any_transaction_on(tmp_path: Path) -> None:
    async with on_ledgers(tmp_path) as (client, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        await write_all(ledgers, ledger_id, BATCHES)
        assert await ledgers.end(ledger_id) == LedgerEnd(22, 17)
        for txid in range(1, 23):
            expected = [batch for batch in BATCHES if batch.last_txid >= txid]
            assert await read_all(ledgers, ledger_id, txid) == expected
        assert await read_all(ledgers, ledger_id, 23) == []
        labels = (await client.describe_ledger(ledger_id)).custom_metadata
        assert (labels[JOURNAL_OF_LEDGER], labels[SEGMENT_OF_LEDGER]) == (b"ns1", b"1")


def test_a_ledger_says_what_the_acceptor_had_promised_and_which_segment_it_is() -> None:
    storage = JournalStorage(-63, 17, "CID-1")
    state = JournalState(
        storage, 7, 6, 99, (SegmentRecord(1, 5, -63, 6),), purged_below=3, generation=2, nonce=b"n"
    )
    copy, begun = NewSegment(4, -63, 6, 9), NewSegment(10, -64, 7)
    for new, segment in (
        (copy, SegmentRecord(4, 0, -63, 6, 9, finalized=True)),
        (begun, SegmentRecord(10, 0, -64, 7)),
    ):
        told = JournalState(storage, 7, 6, segments=(segment,), purged_below=3, generation=2)
        assert decode_state("told", new.encode_ledger_state(state)) == told


async def test_the_batch_of_a_transaction_is_found_by_halving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    read_entry = ReadHandle.read_entry

    async def counted(self: ReadHandle, entry_id: int) -> Entry:
        looked_at.append(entry_id)
        return await read_entry(self, entry_id)

    monkeypatch.setattr(ReadHandle, "read_entry", counted)
    async with on_ledgers(tmp_path) as (_, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        await write_all(ledgers, ledger_id, [batch_of(txid, 1) for txid in range(1, 257)])
        await ledgers.end(ledger_id)
        looked_at.clear()
        async with aclosing(ledgers.batches(ledger_id, 200)) as batches:
            assert await anext(batches) == batch_of(200, 1)
        assert len(looked_at) <= 10


@pytest.mark.parametrize("parts", [1, 2])
async def test_where_a_writer_died_between_the_parts_of_a_batch_the_last_whole_batch_is_the_end(
    tmp_path: Path, parts: int
) -> None:
    async with on_ledgers(tmp_path) as (client, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        await write_all(ledgers, ledger_id, BATCHES[:1])
        writer = ledgers._writers[ledger_id]
        for entry in entries_of(BATCHES[1])[:parts]:
            await writer.append(entry)
        await ledgers.close()
        after = ledgers_of(client)
        assert await after.end(ledger_id) == LedgerEnd(3, None)
        assert await after.look(ledger_id) == LedgerEnd(3, None)
        assert await read_all(after, ledger_id) == BATCHES[:1]


async def test_a_ledger_with_parts_of_a_batch_only_holds_nothing(tmp_path: Path) -> None:
    async with on_ledgers(tmp_path) as (client, ledgers):
        ledger_id = await ledgers.create(NewSegment(4, -63, 1))
        for entry in entries_of(BATCHES[1])[:2]:
            await ledgers._writers[ledger_id].append(entry)
        await ledgers.close()
        assert await ledgers_of(client).end(ledger_id) == LedgerEnd(None, None)


async def test_looking_and_reading_disturb_no_writer_and_ending_stops_it(tmp_path: Path) -> None:
    async with on_ledgers(tmp_path) as (client, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        other = ledgers_of(client)
        assert await other.look(ledger_id) == LedgerEnd(None, None)
        await write_all(ledgers, ledger_id, BATCHES[:1])

        async def seen() -> bool:
            return await other.look(ledger_id) == LedgerEnd(3, None)

        await until_true(seen)
        assert await read_all(other, ledger_id) == BATCHES[:1]
        await write_all(ledgers, ledger_id, BATCHES[1:3])
        assert await other.end(ledger_id) == LedgerEnd(14, 4)
        with pytest.raises(JournalUnavailable):
            await write_all(ledgers, ledger_id, BATCHES[3:4])
        assert await ledgers.end(ledger_id) == LedgerEnd(14, 4), "its writer is told the same end"
        with pytest.raises(JournalUnavailable, match="this process no longer writes to ledger"):
            await ledgers.append(ledger_id, BATCHES[3])


async def test_batches_under_way_when_their_own_writer_ends_the_ledger_are_confirmed_and_none_is_fenced(
    tmp_path: Path,
) -> None:
    async with on_ledgers(tmp_path) as (_, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        writer = ledgers._writers[ledger_id]
        under_way = [await ledgers.append(ledger_id, batch) for batch in BATCHES]
        assert await ledgers.end(ledger_id) == LedgerEnd(22, 17)
        for appended in under_way:
            await appended.confirmed()
        assert writer.has_ended and writer.failure is None


async def test_a_ledger_that_is_gone_is_dropped_without_complaint_and_cannot_be_read(tmp_path: Path) -> None:
    async with on_ledgers(tmp_path) as (_, ledgers):
        ledger_id = await ledgers.create(NewSegment(1, -63, 1))
        await write_all(ledgers, ledger_id, BATCHES[:1])
        await ledgers.drop(ledger_id)
        await ledgers.drop(ledger_id)
        for use in (ledgers.look(ledger_id), ledgers.end(ledger_id), read_all(ledgers, ledger_id)):
            with pytest.raises(JournalUnavailable, match=f"ledger {ledger_id}"):
                await use


async def test_a_ledger_of_somebody_elses_is_no_segment(tmp_path: Path) -> None:
    async with on_ledgers(tmp_path) as (client, ledgers):
        async with await client.create_ledger() as writer:
            await writer.append(b"hello")
        with pytest.raises(SegmentUnreadable):
            await ledgers.look(writer.ledger_id)
        with pytest.raises(SegmentUnreadable):
            await read_all(ledgers, writer.ledger_id)


async def test_without_enough_bookies_no_ledger_is_made(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        for name in ("b1", "b2"):
            await cluster.stop(name)
        with pytest.raises(JournalUnavailable, match="no ledger for segment 1"):
            await ledgers_of(client).create(NewSegment(1, -63, 1))
