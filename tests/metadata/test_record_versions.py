"""A store that went back assigns a revision a second time, to another change (rule W8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from metadata.backup import hold
from metadata.errors import KeyConflict
from metadata.healing import absent_bookies, collection_progress, operator_requests, planned_moves
from metadata.healing.absent_bookies import Absence
from metadata.healing.marks import Marks
from metadata.healing.operator_requests import Order, OrderKind
from metadata.healing.planned_moves import Move, Moves
from metadata.memory_store import MemoryStore
from metadata.records import directory_generations, ledger_ids
from metadata.records.coordination.candidates import Candidate
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.coordination.election_record import begin_term
from metadata.records.coordination.log_shares import LogShares
from metadata.records.directory_generations import Life
from metadata.records.journal_record import FinalizedSegment, JournalState
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_record import BookieRef
from metadata.records.logs import silences
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_set_record import LogSetRecord, LogSetStore
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.producer_record import ProducerSnapshot, ProducerStore
from metadata.records.logs.silences import Silence
from metadata.store import list_all
from metadata.version import NO_VERSION, Version
from tests.support.present import there

BOOKIE, OTHER = BookieRef("b1", "i1"), BookieRef("b2", "i2")
LOG, SET = LogRecord(b"l" * 16, "orders"), LogSetRecord(2, LogRecord(b"s" * 16, "sales"))
SEGMENT = FinalizedSegment(1, 3, 7, -63, 1, 0)

Change = Callable[[MemoryStore, Version | None, int], Coroutine[Any, Any, Version]]
"""Creates (None) or changes a record in a store, the n-th time; returns its version."""


async def change_log(store: MemoryStore, version: Version | None, n: int) -> Version:
    record = LOG.taken_over(f"w{n}")
    logs = LogStore(store)
    return (await (logs.create(record) if version is None else logs.change(record, version))).version


async def change_cursor(store: MemoryStore, version: Version | None, n: int) -> Version:
    cursors = CursorStore(store, LOG.identity)
    if version is None:
        return (await cursors.create("billing", CursorRecord(n))).version
    return (await cursors.change("billing", CursorRecord(n), version)).version


async def change_set(store: MemoryStore, version: Version | None, n: int) -> Version:
    sets, record = LogSetStore(store), LogSetRecord(2 + n, SET.model)
    if version is None:
        return (await sets.create("sales", record)).version
    return (await sets.change("sales", record, version)).version


async def change_state(store: MemoryStore, version: Version | None, n: int) -> Version:
    swapped = await JournalStore(store, "ns1", "a").swap_state(JournalState(last_promised_epoch=n), version)
    if swapped is None:
        raise KeyConflict("state")
    return swapped.version


async def change_segment(store: MemoryStore, version: Version | None, n: int) -> Version:
    journal = JournalStore(store, "ns1", "a")
    if not await journal.put_segment(SEGMENT, version):
        raise KeyConflict("segment")
    return there(await journal.read_segment(1)).version


async def change_silences(store: MemoryStore, version: Version | None, n: int) -> Version:
    return await silences.write(store, LOG.identity, {"billing": Silence(1, n)}, version or NO_VERSION)


async def change_life(store: MemoryStore, version: Version | None, n: int) -> Version:
    return await directory_generations.write(store, "b1", "i1", Life(n), version=version)


@pytest.mark.parametrize(
    "change",
    [change_log, change_cursor, change_set, change_state, change_segment, change_silences, change_life],
)
async def test_a_record_written_by_another_change_at_the_same_revision_is_not_changed(
    change: Change,
) -> None:
    lost, now = MemoryStore(), MemoryStore()
    known, there_now = [await change(store, await change(store, None, 1), 2) for store in (lost, now)]
    assert known == there_now
    (before,) = [item async for item in list_all(now, "")]
    with pytest.raises(KeyConflict):
        await change(now, known, 3)
    assert [item async for item in list_all(now, "")] == [before]
    assert await change(now, there_now, 3) > there_now


OPERATIONS: list[Callable[[MemoryStore], Awaitable[object]]] = [
    lambda store: ledger_ids.take_ledger_ids(store, 7),
    lambda store: begin_term(store, "leader", Candidate("c", 1, "me", 1), 1),
    lambda store: LogShares(store, "sales", "billing").share(["a", "b"], 4),
    lambda store: LogStore(store).give_name("orders", LOG.identity),
    lambda store: ProducerStore(store, LOG.identity).write(5, ProducerSnapshot((), ())),
    lambda store: absent_bookies.note(store, Absence(BOOKIE.bookie_id, BOOKIE.incarnation, 1, 0)),
    lambda store: collection_progress.note(store, BOOKIE, 1),
    lambda store: operator_requests.give(store, Order("b1", OrderKind.DRAIN, 1)),
    lambda store: planned_moves.plan(store, Moves(7, (Move(0, BOOKIE, OTHER),))),
    lambda store: Marks(store).set(7, ["a bookie is gone"], 1),
    lambda store: hold.begin(store, backup_ms=1, now_ms=1),
]


async def test_each_value_begins_with_what_distinguishes_its_change() -> None:
    values = []
    for store in (MemoryStore(), MemoryStore()):
        for operation in OPERATIONS:
            await operation(store)
        values.append([item async for item in list_all(store, "")])
    assert len(values[0]) >= len(OPERATIONS)
    for one, other in zip(*values, strict=True):
        assert one.version == other.version
        assert one.version.begins != other.version.begins, one.key
