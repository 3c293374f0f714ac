"""The memory store keeps the contract, and is a usable reference for others."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import PAGES_WITHOUT_REST, EventKind, MetadataStore, Page, list_all
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


class Slow(MemoryStore):
    """Notes when each page was asked for, and when it was there."""

    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.asked: list[tuple[float, float]] = []

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1) -> Page:
        began = time.monotonic()
        await asyncio.sleep(0.01)
        page = await super().list_page(prefix, after=after, limit=limit)
        self.asked.append((began, time.monotonic()))
        return page


async def test_a_long_listing_leaves_the_store_to_others_for_as_long_as_it_takes() -> None:
    store = Slow()
    for n in range(PAGES_WITHOUT_REST + 3):
        await store.create(f"k/{n:02}", b"")
    assert len([one async for one in list_all(store, "k/", limit=1)]) == PAGES_WITHOUT_REST + 3
    rests = [later[0] - earlier[1] for earlier, later in pairwise(store.asked)]
    assert all(rest >= 0.009 for rest in rests[PAGES_WITHOUT_REST - 1 :])
    assert len(rests[PAGES_WITHOUT_REST - 1 :]) == 3
