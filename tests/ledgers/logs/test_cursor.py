"""A cursor while the metadata store is away, by virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ledgers import MetadataWentBack
from ledgers.aio import Cursor, LedgerClient
from ledgers.logs.cursors.cursor import RETRY_SECONDS
from ledgers.logs.cursors.cursor_calls import CursorState
from metadata.errors import StoreRefused
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from tests.simulation.engine.loop import VirtualLoop
from tests.support.faulty_store import FaultyStore

LOG = b"l" * 16


@asynccontextmanager
async def opened(store: FaultyStore) -> AsyncIterator[Cursor]:
    """The cursor of a log of ten records, of which none is read."""
    client = LedgerClient("memory://unused")
    await client.connect()
    assert client._cluster is not None
    client._cluster.store = client._store = store
    found = await LogStore(store).create(LogRecord(LOG, "orders"))
    await LogStore(store).give_name("orders", found.record.identity)
    log: Any = await client.log("orders")
    cursors = CursorStore(store, found.record.identity)
    state = CursorState(cursors, "orders", "billing", await cursors.create("billing", CursorRecord(0)))
    log._known.advance_to(10)
    yield Cursor(client._cluster, log, state, commit_seconds=0)
    await client.close()


def test_what_was_committed_is_written_once_the_store_takes_it_and_meanwhile_it_is_asked_rarely() -> None:
    async def scenario() -> None:
        store = FaultyStore()
        async with opened(store) as cursor:
            store.fail(StoreRefused("permission denied"), calls={"replace"})
            cursor.commit(4)
            await asyncio.sleep(4.5 * RETRY_SECONDS)
            assert store.failures == 5
            assert cursor.position == 0
            store.heal()
            await asyncio.sleep(RETRY_SECONDS)
            assert cursor.position == 4

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


def test_whoever_commits_after_the_store_went_back_is_told_so_and_asks_no_further() -> None:
    async def scenario() -> None:
        async with opened(FaultyStore()) as cursor:
            cursors: CursorStore = cursor._state._store
            cursors.store = older = FaultyStore()
            await CursorStore(older, LOG).create("billing", CursorRecord(0))
            cursor.commit(4)
            await asyncio.sleep(1)
            for call in (cursor.flush, cursor.refresh):
                with pytest.raises(MetadataWentBack, match="went back to an older copy of itself"):
                    await call()
            assert older.calls["replace"] == 1

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
