"""Whether a recovery has closed the ledger just where a fenced writer wanted to."""

from __future__ import annotations

import pytest

from ledgers.writing.write_handle import closed_by_others
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore

LEDGER_ID = 7
OPEN = LedgerRecord(LEDGER_ID, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i"),)),))


@pytest.mark.parametrize(
    ("record", "is_closed_there"),
    [(OPEN.closed(4, 50), True), (OPEN.closed(3, 40), False), (OPEN.closed(5, 60), False), (OPEN, False)],
)
async def test_only_a_ledger_that_is_closed_at_this_very_entry_is(
    record: LedgerRecord, is_closed_there: bool
) -> None:
    ledgers = LedgerStore(MemoryStore())
    made = await ledgers.create(record)
    found = await closed_by_others(ledgers, made.record, 4)
    assert found == (made.record if is_closed_there else None)


async def test_a_ledger_that_was_deleted_is_not_closed_at_any_entry() -> None:
    ledgers = LedgerStore(MemoryStore())
    made = await ledgers.create(OPEN)
    await ledgers.delete(made)
    assert await closed_by_others(ledgers, made.record, -1) is None


async def test_nobody_can_tell_while_the_metadata_store_does_not_answer() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    made = await ledgers.create(OPEN.closed(4, 50))
    await store.close()
    assert await closed_by_others(ledgers, made.record, 4) is None
