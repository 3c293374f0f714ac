"""Segments that do not fit to their ledgers are found, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bookledger.cluster.log_chains import BrokenSegment, broken_segments
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment
from tests.support.aio import run

A = b"a" * 16
PAGED = Segment(1, 0, 1, 1, end_position=10, ended_us=2, length_bytes=100)
ENDED = Segment(2, 10, 1, 3, end_position=20, ended_us=4, length_bytes=100)
OPEN = Segment(3, 20, 2, 5)
LOG = LogRecord(A, "orders", epoch=2, segments=(ENDED, OPEN), paged_through=10)


def ledger(of: Segment, identity: bytes = A) -> LedgerRecord:
    """As it stands where all is well."""
    made = LedgerRecord(
        of.ledger_id,
        Shape(1, 1, 1),
        (Fragment(0, (BookieRef("b1", "i1"),)),),
        custom_metadata={SEGMENT: SegmentOf(identity, of.first_position, of.epoch).encoded()},
    )
    if of.end_position is None:
        return made
    last = of.end_position - of.first_position - 1
    return replace(made, state=LedgerState.CLOSED, last_entry=last, length_bytes=of.length_bytes)


WELL = (ledger(PAGED), ledger(ENDED), ledger(OPEN))


def broken(ledgers: Sequence[LedgerRecord], log: LogRecord = LOG) -> list[BrokenSegment]:
    async def scenario() -> list[BrokenSegment]:
        store = MemoryStore(MemoryData())
        logs = LogStore(store)
        await logs.create(log)
        await logs.put_page(A, (PAGED,))
        for one in ledgers:
            await LedgerStore(store).create(one)
        return await broken_segments(store)

    return run(scenario())


def test_what_fits_is_not_told() -> None:
    assert broken(WELL) == []


@pytest.mark.parametrize(
    ("changed", "segment", "why"),
    [
        (WELL[1:], PAGED, "the ledger does not exist"),
        (WELL[:2], OPEN, "the ledger does not exist"),
        ((*WELL[:2], ledger(OPEN, b"b" * 16)), OPEN, "describes itself as another segment"),
        ((WELL[0], ledger(replace(ENDED, end_position=19)), WELL[2]), ENDED, "ends before position 19"),
        ((WELL[0], ledger(replace(ENDED, end_position=None)), WELL[2]), ENDED, "the ledger is open"),
    ],
)
def test_a_segment_that_does_not_fit_is_told_with_what_is_wrong(
    changed: Sequence[LedgerRecord], segment: Segment, why: str
) -> None:
    (found,) = broken(changed)
    assert (found.log, found.segment) == ("orders", segment) and why in found.why


def test_what_was_given_up_need_not_be_there() -> None:
    assert broken(WELL[1:], LOG.truncated(10)) == []
    assert broken((), LOG.given_up()) == []
