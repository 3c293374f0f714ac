"""The memory store keeps the contract, and is a usable reference for others."""

from __future__ import annotations

import asyncio

import pytest

from metadata.memory import MemoryData, MemoryStore
from metadata.store import EventKind, MetadataStore
from tests.contracts.metadata_store import EVENTS_KEPT, MetadataStoreContract, watching


class TestMemoryStore(MetadataStoreContract):
    ttl_seconds = 0.3

    @pytest.fixture(autouse=True)
    def _data(self) -> None:
        self.data = MemoryData(events_kept_max=EVENTS_KEPT)

    async def open_store(self) -> MetadataStore:
        return MemoryStore(self.data)

    async def test_a_watch_hears_of_changes_made_in_another_threads_event_loop(self) -> None:
        async def change() -> None:
            await MemoryStore(self.data).create("a", b"from elsewhere")

        async with watching(MemoryStore(self.data), "a", 0) as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(asyncio.run, change())
            event = await waiting
        assert (event.kind, event.value) == (EventKind.PUT, b"from elsewhere")
