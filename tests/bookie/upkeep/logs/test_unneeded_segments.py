"""Ledgers that no log needs are found and deleted in an audit; no other ledger is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bookie.upkeep.logs.unneeded_segments import UnneededSegments
from metadata.memory import MemoryData, MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import SEGMENT, SegmentOf
from metadata.records.logs.log_record import LogRecord, Segment
from metadata.records.logs.log_store import LogStore
from tests.support.aio import run
from tests.support.present import there

A, UNKNOWN = b"a" * 16, b"u" * 16
PAGED = Segment(1, 0, 1, 1, end_position=10, ended_us=2, length_bytes=100)
ENDED = Segment(2, 10, 1, 3, end_position=20, ended_us=4, length_bytes=100)
OPEN = Segment(3, 20, 2, 5)
LOG = LogRecord(A, "orders", epoch=2, segments=(ENDED, OPEN), paged_through=10)


def ledger(ledger_id: int, said: SegmentOf | None) -> LedgerRecord:
    custom = {} if said is None else {SEGMENT: said.encoded()}
    ensemble = (Fragment(0, (BookieRef("b1", "i1"),)),)
    return LedgerRecord(ledger_id, Shape(1, 1, 1), ensemble, custom_metadata=custom)


def is_deleted(said: SegmentOf | None, ledger_id: int, log: LogRecord = LOG) -> bool:
    async def scenario() -> bool:
        store = MemoryStore(MemoryData())
        logs, ledgers = LogStore(store), LedgerStore(store)
        await logs.create(log)
        await logs.put_page(A, (PAGED,))
        await ledgers.create(ledger(ledger_id, said))
        found = there(await ledgers.read(ledger_id))
        deleted = await UnneededSegments(store).delete(found)
        assert (await ledgers.read(ledger_id) is None) == deleted
        return deleted

    return run(scenario())


def test_what_a_dead_writer_made_and_did_not_add_is_deleted_once_a_later_one_has_taken_over() -> None:
    assert is_deleted(SegmentOf(A, 20, 1), 7)
    assert not is_deleted(SegmentOf(A, 20, 2), 7), "its writer may add it yet"


@pytest.mark.parametrize("segment", [PAGED, ENDED, OPEN])
def test_L6_no_ledger_is_deleted_in_which_something_is_left(segment: Segment) -> None:
    assert not is_deleted(SegmentOf(A, segment.first_position, segment.epoch), segment.ledger_id)


def test_a_segment_that_was_given_up_is_deleted_unless_the_log_is_held() -> None:
    given_up = LOG.truncated(20)
    assert is_deleted(SegmentOf(A, 10, 1), 2, given_up)
    assert is_deleted(SegmentOf(A, 0, 1), 1, given_up)
    assert not is_deleted(SegmentOf(A, 10, 1), 2, given_up.held(True))
    assert not is_deleted(SegmentOf(A, 20, 1), 7, LOG.held(True))


async def test_L6_a_hold_that_begins_during_an_audit_is_seen_before_the_next_deletion() -> None:
    store = MemoryStore(MemoryData())
    logs, ledgers = LogStore(store), LedgerStore(store)
    created = await logs.create(LOG.truncated(20))
    made = [await ledgers.create(ledger(n, SegmentOf(A, 10, 1))) for n in (2, 7)]
    audit = UnneededSegments(store)
    assert await audit.delete(made[0])
    await logs.change(created.record.held(True), created.version)
    assert not await audit.delete(made[1])


def test_ledgers_of_no_log_and_of_logs_that_are_not_known_stay() -> None:
    assert not is_deleted(None, 7)
    assert not is_deleted(SegmentOf(UNKNOWN, 0, 1), 7)
    assert is_deleted(SegmentOf(A, 20, 2), 3, replace(LOG, deleted=True, epoch=3))
