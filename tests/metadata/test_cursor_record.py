"""The records of cursors: what moves them, and what does not; and in a store."""

from __future__ import annotations

import pytest

from metadata import keys
from metadata.errors import BadRecord, KeyExists, NoSuchKey, VersionConflict
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.coordination import cursor_record
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore

LOG = b"l" * 16


def test_a_commit_never_moves_a_cursor_back() -> None:
    record = CursorRecord(5)
    assert record.committed(7, 1) == CursorRecord(7, changed_ms=1)
    assert record.committed(5, 1) is record
    assert record.committed(3, 1) is record


def test_a_seek_moves_it_back_and_has_a_generation_of_its_own() -> None:
    record = CursorRecord(5, epoch=2, consumer="a").sought(3, 1)
    assert record == CursorRecord(3, generation=1, epoch=2, consumer="a", changed_ms=1)
    assert record.sought(3, 2).generation == 2


def test_each_take_over_has_an_epoch_of_its_own() -> None:
    record = CursorRecord(5, generation=1).taken_over("a").taken_over("b" * 1000)
    assert record == CursorRecord(5, generation=1, epoch=2, consumer="b" * 256)


async def test_cursors_are_created_once_changed_at_their_version_and_listed_by_name() -> None:
    store = CursorStore(MemoryStore(MemoryData()), LOG)
    assert await store.read("b") is None
    made = await store.create("b", CursorRecord(5))
    with pytest.raises(KeyExists):
        await store.create("b", CursorRecord(9))
    changed = await store.change("b", CursorRecord(7, 1, 2, "c", 3), made.version)
    with pytest.raises(VersionConflict):
        await store.change("b", CursorRecord(9), made.version)
    assert await store.read("b") == changed
    await store.create("a", CursorRecord(0))
    assert [found async for found in store.list()] == [
        ("a", CursorRecord(0)),
        ("b", CursorRecord(7, 1, 2, "c", 3)),
    ]


async def test_a_cursor_that_was_deleted_is_changed_by_nobody() -> None:
    store = CursorStore(MemoryStore(MemoryData()), LOG)
    made = await store.create("a", CursorRecord(5))
    await store.create("b", CursorRecord(5))
    assert await store.forget("a")
    assert not await store.forget("a")
    with pytest.raises(NoSuchKey):
        await store.change("a", CursorRecord(7), made.version)
    await store.forget_all()
    assert [found async for found in store.list()] == []


@pytest.mark.parametrize("value", [b"\x08\x63", b"\xff", b"\x08\x01\x10" + b"\xff" * 9 + b"\x01"])
def test_a_cursor_that_cannot_be_understood_is_no_cursor(value: bytes) -> None:
    with pytest.raises(BadRecord, match="cursors/6c6c"):
        cursor_record.decode(keys.cursor(LOG, "a"), value)
