"""Which log needs a ledger: what may be deleted is what no log has, or will have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledgers import LedgerError
from ledgers.logs.segment_holder import holder_of
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment
from tests.support.aio import run

A = b"a" * 16
ENDED = Segment(1, 0, 1, 1, end_position=10, ended_us=2, length_bytes=100)
OPEN = Segment(2, 10, 2, 3)
LOG = LogRecord(A, "orders", epoch=2, segments=(ENDED, OPEN))


def ledger(ledger_id: int, first_position: int, epoch: int, identity: bytes = A) -> LedgerRecord:
    custom = {SEGMENT: SegmentOf(identity, first_position, epoch).encoded()}
    return LedgerRecord(
        ledger_id, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),), custom_metadata=custom
    )


def held(record: LedgerRecord, log: LogRecord = LOG, page: tuple[Segment, ...] = ()) -> bool:
    async def scenario() -> bool:
        logs = LogStore(MemoryStore(MemoryData()))
        await logs.create(log)
        if page:
            await logs.put_page(A, page)
        return await holder_of(logs, record) is not None

    return run(scenario())


def test_a_log_needs_every_segment_in_which_something_is_left() -> None:
    assert held(ledger(1, 0, 1)) and held(ledger(2, 10, 2))
    assert held(ledger(1, 0, 1), LOG.truncated(9))
    assert not held(ledger(1, 0, 1), LOG.truncated(10))
    assert held(ledger(1, 0, 1), replace(LOG.truncated(10), legal_hold=True))


def test_a_log_needs_segments_of_its_pages() -> None:
    later = replace(ENDED, ledger_id=5, first_position=10, end_position=20)
    log = LogRecord(A, "orders", epoch=2, segments=(replace(OPEN, first_position=20),), paged_through=20)
    page = (ENDED, later)
    assert held(ledger(1, 0, 1), log, page) and held(ledger(5, 10, 1), log, page)
    assert not held(ledger(1, 0, 1), log.truncated(10), page)
    assert not held(ledger(9, 0, 1), log, page)


def test_a_ledger_that_a_writer_has_made_ahead_is_needed_until_a_later_writer_takes_over() -> None:
    made_ahead = ledger(7, 50, 2)
    assert held(made_ahead)
    assert not held(made_ahead, LOG.taken_over("next"))
    assert not held(made_ahead, LOG.with_obsolete([7]))


def test_nothing_else_is_needed_by_a_log() -> None:
    assert not held(replace(ledger(1, 0, 1), custom_metadata={}))
    assert not held(ledger(1, 0, 1, identity=b"b" * 16)), "there is no such log"
    assert not held(ledger(2, 10, 2), LOG.given_up())


def test_what_a_newer_program_says_of_a_log_is_not_overruled() -> None:
    newer = replace(ledger(1, 0, 1), custom_metadata={SEGMENT: b"\x02" + bytes(40)})
    with pytest.raises(LedgerError, match="a newer version of this program wrote"):
        held(newer)
