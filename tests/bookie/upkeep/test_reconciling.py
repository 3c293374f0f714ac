"""The notes of all bookies are laid beside all records, and bring these up to date."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace

import pytest

from bookie.upkeep.inventory import metadata_reconciliation
from bookie.upkeep.inventory.metadata_reconciliation import Compared, bring_up, differences
from bookie.wire.messages import NO_NOTE, HeldNote
from metadata.backup import hold
from metadata.memory_store import MemoryStore
from metadata.records import ledger_ids
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape, Tombstone
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote, notes_for
from metadata.records.record_decoding import OnUnreadable, skip
from metadata.store import PAGE_KEYS_MAX

A, B, C = (BookieRef(name, f"i-{name}") for name in "abc")
SHAPE = Shape(2, 2, 1)


def created(ledger_id: int) -> LedgerRecord:
    return LedgerRecord(
        ledger_id, SHAPE, (Fragment(0, (A, B), number=1),), identity=ledger_id.to_bytes(16), created_ms=1
    )


def changed(ledger_id: int) -> LedgerRecord:
    return created(ledger_id).changed_ensemble(Fragment(5, (A, C), 100))


async def told(
    bookie: BookieRef, *records: LedgerRecord, unnoted: int | None = None
) -> AsyncGenerator[HeldNote, None]:
    """What a bookie keeps of these ledgers."""
    if unnoted is not None:
        yield HeldNote(unnoted, 0, b"", NO_NOTE)
    for record in records:
        for note in notes_for(record, bookie):
            yield HeldNote(
                record.ledger_id, note.fragment.first_entry, record.identity, fragment_note.encode(note)
            )


def by_all(*records: LedgerRecord) -> Mapping[BookieRef, AsyncGenerator[HeldNote, None]]:
    return {bookie: told(bookie, *records) for bookie in (A, B, C)}


async def standing(store: MemoryStore) -> dict[int, LedgerRecord]:
    """Without what copies may lack, which nobody knows of records that are made again."""
    found = {}
    async for one in LedgerStore(store).list():
        fragments = tuple(replace(fragment, lacking=()) for fragment in one.record.fragments)
        found[one.ledger_id] = replace(one.record, nonce=b"", fragments=fragments)
    return found


async def test_older_records_are_brought_up_and_lost_ones_made_again_and_nothing_else_is_changed() -> None:
    store = MemoryStore()
    ledgers = LedgerStore(store)
    for record in (created(1), created(3), changed(4).closed(7, 140), created(6)):
        await ledgers.create(record)
    await ledgers.delete(await ledgers.create(created(5)))
    deleted = await ledgers.tombstone(5)
    await hold.begin(store, backup_ms=0, now_ms=1)
    now = [created(1), changed(2).closed(9, 180), changed(3), changed(4), changed(5), changed(8)]
    seen = Compared()
    found = [one async for one in differences(store, by_all(*now), seen)]
    assert [(one.ledger_id, one.found and one.found.record.fragments) for one in found] == [
        (2, None),
        (3, created(3).fragments),
        (8, None),
    ]
    assert await standing(store) == {
        one.ledger_id: one for one in (created(1), created(3), changed(4).closed(7, 140), created(6))
    }, "to look changes nothing"
    assert await bring_up(store, by_all(*now), Compared()) == 3
    assert await standing(store) == {
        one.ledger_id: one
        for one in (
            created(1),
            changed(2).closed(9, 180),
            changed(3),
            changed(4).closed(7, 140),
            created(6),
            changed(8),
        )
    }
    assert await ledgers.tombstone(5) == deleted
    assert await ledger_ids.counted_end(store) == 9
    assert await bring_up(store, by_all(*now), Compared()) == 0


async def test_ids_move_past_ledgers_of_which_nothing_is_noted_but_not_past_those_that_were_chosen() -> None:
    store = MemoryStore()
    await LedgerStore(store).create(created(77))
    seen = Compared()
    assert await bring_up(store, {A: told(A, created(77), unnoted=40)}, seen) == 0
    assert (seen.unnoted, seen.highest) == (1, 40)
    assert await ledger_ids.counted_end(store) == 41


async def test_notes_that_cannot_be_read_are_passed_over() -> None:
    async def strange() -> AsyncGenerator[HeldNote, None]:
        yield HeldNote(2, 0, b"", b"junk")

    store = MemoryStore()
    found = [one async for one in differences(store, {A: strange(), C: told(C, changed(2))}, Compared())]
    assert [len(one.noted) for one in found] == [1]


async def test_notes_that_fit_no_record_are_passed_over_and_those_of_other_ledgers_count() -> None:
    """Whoever writes to a ledger sends its notes."""
    store = MemoryStore()
    narrow = replace(created(2), shape=Shape(1, 1, 1), fragments=(Fragment(0, (C,), number=9),))
    lie = fragment_note.encode(FragmentNote(replace(narrow.fragments[0], first_entry=5), narrow))

    async def lying() -> AsyncGenerator[HeldNote, None]:
        yield HeldNote(2, 5, narrow.identity, lie)

    notes = {A: told(A, created(2), created(3)), C: lying()}
    assert [one.ledger_id async for one in differences(store, notes, Compared())] == [3]


class ClosesMeanwhile(LedgerStore):
    """Its writer closes a ledger between two looks at the record."""

    async def list_with_deleted(
        self, first_ledger: int = 0, *, limit: int = PAGE_KEYS_MAX, on_unreadable: OnUnreadable = skip
    ) -> AsyncIterator[VersionedRecord | Tombstone]:
        async for one in super().list_with_deleted(first_ledger, limit=limit, on_unreadable=on_unreadable):
            if isinstance(one, VersionedRecord) and not one.record.is_closed:
                await self.change(one.record.closed(3, 60), one.version)
            yield one


async def test_what_was_told_of_a_record_after_it_was_listed_is_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    await LedgerStore(store).create(created(2))
    monkeypatch.setattr(metadata_reconciliation, "LedgerStore", ClosesMeanwhile)
    notes = by_all(created(2).closed(3, 60))
    assert [one async for one in differences(store, notes, Compared())] == []
