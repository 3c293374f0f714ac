"""What logs have given up is deleted, and ledgers that no log needs; no other ledger is.

L6: what is given up is named until it is deleted, and no ledger is deleted in which something is left, or under a hold.
Truncations, which take segments from the chain, are in metadata/test_log_record.py and integration/test_logs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from metadata.errors import CONFLICTS_MAX
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_record import SEGMENT, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.logs.log_ledgers import SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment import Segment
from metadata.records.logs.segment_deletion import Cleaner, UnneededSegments
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


def test_L6_a_segment_that_was_given_up_is_deleted_unless_the_log_is_held() -> None:
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


# --- the clean-up of one log ---------------------------------------------------------------------------


class Chain:
    """A log's record in a store that nobody else changes."""

    def __init__(self, found: VersionedLog, logs: LogStore) -> None:
        self.found = found
        self.logs = logs

    async def look(self) -> LogRecord:
        self.found = there(await self.logs.read(A))
        return self.found.record

    async def change(self, transition: Callable[[LogRecord], LogRecord]) -> LogRecord:
        wanted = transition(await self.look())
        if wanted != self.found.record:
            self.found = await self.logs.change(wanted, self.found.version)
        return self.found.record

    async def clean(self, ledgers_max: int = 100) -> bool:
        return await Cleaner(self.logs, self.look, ledgers_max=ledgers_max).clean(self.change)

    async def left(self) -> list[int]:
        return [one.ledger_id async for one in LedgerStore(self.logs.store).list()]


async def chain_of(log: LogRecord, *others: LedgerRecord) -> Chain:
    """A log with the ledgers of PAGED, ENDED and OPEN, but for those that `others` are instead."""
    logs = LogStore(MemoryStore(MemoryData()))
    own = [ledger(s.ledger_id, SegmentOf(A, s.first_position, s.epoch)) for s in (PAGED, ENDED, OPEN)]
    for one in {made.ledger_id: made for made in (*own, *others)}.values():
        await LedgerStore(logs.store).create(one)
    await logs.put_page(A, (PAGED,))
    return Chain(await logs.create(log), logs)


async def test_what_a_truncation_gave_up_is_deleted_with_its_names() -> None:
    chain = await chain_of(LOG.truncated(20))
    assert await chain.clean()
    assert (await chain.left(), chain.found.record.obsolete) == ([3], ())
    assert [page async for page in chain.logs.pages(A)] == []


async def test_a_clean_up_of_so_many_ledgers_goes_on_at_the_next() -> None:
    chain = await chain_of(LOG.truncated(20))
    assert not await chain.clean(ledgers_max=1)
    assert await chain.left() == [1, 3]
    assert await chain.clean(ledgers_max=1)
    assert await chain.left() == [3]


async def test_L6_a_clean_up_under_a_legal_hold_deletes_nothing() -> None:
    chain = await chain_of(LOG.truncated(20).held(True))
    assert not await chain.clean()
    assert await chain.left() == [1, 2, 3]


@pytest.mark.parametrize("said", [None, SegmentOf(UNKNOWN, 10, 1)])
async def test_a_ledger_that_has_the_id_of_one_that_was_given_up_stays(said: SegmentOf | None) -> None:
    chain = await chain_of(LOG.truncated(20), ledger(ENDED.ledger_id, said))
    assert await chain.clean()
    assert (await chain.left(), chain.found.record.obsolete) == ([2, 3], ())


async def test_a_segment_in_the_chain_and_in_a_page_is_deleted_where_it_found_no_room_in_the_record() -> None:
    full = replace(LOG, paged_through=0, segments=(PAGED, ENDED, OPEN), obsolete=tuple(range(100, 1100)))
    chain = await chain_of(full.truncated(20))
    assert chain.found.record.segments == full.segments
    assert await chain.clean(ledgers_max=2000)
    assert (await chain.left(), chain.found.record.segments) == ([3], (OPEN,))
    assert [page async for page in chain.logs.pages(A)] == []


@pytest.mark.parametrize("changes", [1, CONFLICTS_MAX])
async def test_of_a_deleted_log_nothing_is_left_unless_a_ledger_keeps_changing(
    monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    chain = await chain_of(replace(LOG, name="orders").given_up())
    delete = LedgerStore.delete
    tried: list[VersionedRecord] = []

    async def changed(self: LedgerStore, found: VersionedRecord) -> None:
        if len(tried) < changes:
            tried.append(await self.change(found.record, found.version))
        await delete(self, found)

    monkeypatch.setattr(LedgerStore, "delete", changed)
    is_done = await Cleaner(chain.logs, chain.look).forget(chain.found)
    assert is_done == (changes == 1)
    assert (await chain.left(), await chain.logs.read(A)) == (
        ([], None) if is_done else ([1, 2, 3], chain.found)
    )
