"""Records of logs, sets and acceptors that are older than their ledgers are brought up to them; others stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookledger.cluster.rebuilding.record_repair import find_stale_records
from bookledger.cluster.rebuilding.stale_record import StaleRecord
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.journal_record import Dropped, JournalState, SegmentRecord
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_record import LogRecord, SetMember
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment

from .test_cluster import segment
from .test_journals import LAYOUT, STORAGE, ledger

SET = LogRecord(b"s" * 16, "sales")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(MemoryData())


async def made(store: MemoryStore, *ledgers: LedgerRecord) -> list[StaleRecord]:
    """Brings all up, after which nothing is behind."""
    for record in ledgers:
        await LedgerStore(store).create(record)
    found = [one async for one in find_stale_records(store)]
    for one in found:
        await one.make()
    assert [one.about async for one in find_stale_records(store)] == []
    return found


def member(number: int, logs: int, generation: int = 0) -> LogRecord:
    identity = bytes([number]) * 16
    return LogRecord(identity, f"sales.{number}", member=SetMember(SET.identity, number, logs, generation))


async def test_an_acceptor_gets_the_segments_that_came_later_and_takes_no_promise_back(
    store: MemoryStore,
) -> None:
    journal, before = JournalStore(store, "ns1", "main"), SegmentRecord(1, 1, LAYOUT, 1)
    await journal.swap_state(JournalState(STORAGE, 5000, 1, committed_txid=4, segments=(before,)), None)
    (found,) = await made(store, ledger(1, 1), ledger(2, 11), ledger(3, 21, epoch=2, closed=None))
    assert found.about == "acceptor main of journal ns1" and found.doubts == ()
    standing = await journal.read_state()
    assert standing is not None
    state = standing.state
    assert [one.ledger_id for one in state.segments] == [3] and state.last_finalized_start == 11
    assert state.last_promised_epoch > 5000 and state.committed_txid == 4
    assert [one.segment.ledger_id async for one in journal.list_segments()] == [1, 2]


async def test_an_acceptor_that_names_its_last_ledger_stays_as_it_is(store: MemoryStore) -> None:
    journal = JournalStore(store, "ns1", "main")
    await journal.swap_state(JournalState(STORAGE, 7, 1, segments=(SegmentRecord(11, 2, LAYOUT, 1),)), None)
    assert await made(store, ledger(1, 1), ledger(2, 11)) == []


async def test_segments_that_were_dropped_do_not_come_back_to_an_acceptor(store: MemoryStore) -> None:
    journal = JournalStore(store, "ns1", "main")
    rolled_back = JournalState(
        STORAGE, 7, 1, segments=(SegmentRecord(1, 1, LAYOUT, 1),), generation=2, dropped=(Dropped(0, 1, 11),)
    )
    await journal.swap_state(rolled_back, None)
    assert await made(store, ledger(1, 1, state=replace(rolled_back, generation=0)), ledger(2, 11)) == []


async def test_a_set_that_was_made_since_is_there_again_with_its_logs(store: MemoryStore) -> None:
    found = await made(store, *(segment(n, 0, log=member(n, 2)) for n in range(2)))
    assert [one.about for one in found] == ["log sales.0", "log sales.1", "set sales"]
    standing = await LogSetStore(store).read("sales")
    assert standing is not None
    assert standing.record.logs == 2 and standing.record.model.identity == SET.identity
    assert standing.record.is_unsettled


async def test_a_set_that_grew_since_grows_again_and_one_that_did_not_stays(store: MemoryStore) -> None:
    sets = LogSetStore(store)
    await sets.create("sales", LogSetRecord(2, SET))
    assert [one.about for one in await made(store, segment(1, 0, log=member(0, 2)))] == ["log sales.0"]
    found = await made(store, segment(2, 0, log=member(3, 4, generation=1)))
    assert [one.about for one in found] == ["log sales.3", "set sales"]
    standing = await sets.read("sales")
    assert standing is not None and standing.record.growing_to == 4 and standing.record.generation > 1


async def test_a_log_whose_earlier_segments_nobody_noted_is_held_and_said_to_be_doubtful(
    store: MemoryStore,
) -> None:
    log = LogRecord(b"o" * 16, "orders")
    (found,) = await made(store, segment(1, 20, log=log))
    assert found.doubts[0] == "no bookie noted the segments with positions 0 to 19"
    standing = await LogStore(store).read(log.identity)
    assert standing is not None and standing.record.legal_hold


async def test_a_log_that_was_truncated_since_keeps_its_first_position_and_its_epoch(
    store: MemoryStore,
) -> None:
    log = LogRecord(b"o" * 16, "orders", first_position=8, paged_through=10, epoch=9000)
    await LogStore(store).create(log)
    later = [segment(n, n * 10, log=replace(log, first_position=5, epoch=1)) for n in range(3)]
    await made(store, *later)
    standing = await LogStore(store).read(log.identity)
    assert standing is not None
    assert standing.record.first_position == 8 and standing.record.epoch > 9000
    assert standing.record.end_position == 30


async def test_a_segment_that_is_made_again_begins_no_earlier_than_pages_end(store: MemoryStore) -> None:
    """Its ledger may have been made ahead, while the one before it was still written."""
    log = LogRecord(b"o" * 16, "orders", epoch=1, paged_through=10)
    await LogStore(store).create(replace(log, segments=(Segment(1, 10, 1, begun_us=1771),)))
    await made(store, segment(1, 10, log=log), segment(2, 20, log=log))
    standing = await LogStore(store).read(log.identity)
    assert standing is not None
    assert [(one.ledger_id, one.begun_us) for one in standing.record.segments] == [(1, 1771), (2, 2000)]
    assert standing.record.paged_us == 1771
