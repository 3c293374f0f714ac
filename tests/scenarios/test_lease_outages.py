"""Who keeps a lease still has it where the store is silent for most of its time, whether or not silence takes time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from metadata.errors import StoreUnavailable
from metadata.leases.held_key import NOT_IN_TIME, HeldKey
from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import RENEWALS_PER_LEASE, MetadataStore
from tests.simulation.engine.loop import VirtualLoop, run
from tests.support.lease_holders import Holder, candidate, name_lease, registrar

LEASE_SECONDS = 12.0
SOON = 0.001

Make = Callable[[MetadataStore, float], Holder]


class SilentStore(MemoryStore):
    """Answers nothing while it is silent, and whoever asked knows that only after a while."""

    is_silent = False
    silence_seconds = 0.0

    async def keep_lease(self, lease: object) -> None:
        if self.is_silent:
            await asyncio.sleep(self.silence_seconds)
            raise StoreUnavailable("no answer")
        await super().keep_lease(lease)  # type: ignore[arg-type]


@asynccontextmanager
async def holding(holder: Holder) -> AsyncIterator[HeldKey]:
    await holder.take()
    yield holder.held
    await holder.end()


@pytest.mark.parametrize("make", [candidate, registrar, name_lease])
@pytest.mark.parametrize(("silence_seconds", "outage_seconds"), [(0.0, 10.5), (1.0, 9.5), (5.0, 8.0)])
def test_a_lease_outlasts_an_outage_that_ends_before_it(
    make: Make, silence_seconds: float, outage_seconds: float
) -> None:
    async def scenario() -> None:
        store = SilentStore(MemoryData())
        store.silence_seconds = silence_seconds
        async with holding(make(store, LEASE_SECONDS)) as held:
            store.is_silent = True
            await asyncio.sleep(outage_seconds)
            store.is_silent = False
            await asyncio.sleep(LEASE_SECONDS - outage_seconds + SOON)
            assert not held.why_lost, "renewed after the outage"
            await asyncio.sleep(2 * LEASE_SECONDS)
            assert not held.why_lost

    run(scenario, VirtualLoop())


@pytest.mark.parametrize("make", [candidate, registrar, name_lease])
def test_a_lease_that_was_not_renewed_in_its_time_counts_as_lost_before_the_store_ends_it(
    make: Make,
) -> None:
    async def scenario() -> None:
        store = SilentStore(MemoryData())
        async with holding(make(store, LEASE_SECONDS)) as held:
            await asyncio.sleep(LEASE_SECONDS / RENEWALS_PER_LEASE + SOON)
            assert not held.why_lost
            store.is_silent = True
            await asyncio.sleep(LEASE_SECONDS)
            assert held.why_lost == NOT_IN_TIME

    run(scenario, VirtualLoop())
