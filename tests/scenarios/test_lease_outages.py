"""Who keeps a lease still has it where the store is silent for most of its time, whether or not silence takes time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from bookie.serving.registration import Registrar
from ledgers.elections.place import Place
from metadata.errors import StoreUnavailable
from metadata.memory import MemoryData, MemoryStore
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.journal_node import JournalNodeRecord
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import RENEWALS_PER_LEASE, MetadataStore
from qjm_compat.hadoop.server.lease import NameLease
from tests.simulation.engine.loop import VirtualLoop, run
from tests.support.aio import cancel

LEASE_SECONDS = 12.0
SOON = 0.001

IsHeld = Callable[[], bool]
Keeper = Callable[[MetadataStore], AbstractAsyncContextManager[IsHeld]]


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
async def candidate(store: MetadataStore) -> AsyncIterator[IsHeld]:
    place = await Place.take(CandidateStore(store, "scheduler"), "me", LEASE_SECONDS)
    yield lambda: not place.is_lost
    await place.leave("the test is over")


@asynccontextmanager
async def bookie(store: MetadataStore) -> AsyncIterator[IsHeld]:
    registrar = Registrar(store, Registration(BookieRef("b1", "i1"), "host:3181", "rack-1"), LEASE_SECONDS)
    await registrar.register()
    keeping = asyncio.create_task(registrar.keep())
    yield lambda: registrar.is_registered
    await cancel(keeping)


@asynccontextmanager
async def journal_node(store: MetadataStore) -> AsyncIterator[IsHeld]:
    name = NameLease(store, JournalNodeRecord("j1", "host:8485", "host:8480", b"session"), LEASE_SECONDS)
    await name.take()
    keeping = asyncio.create_task(name.keep())
    yield lambda: name.is_held
    await cancel(keeping)


@pytest.mark.parametrize("keeper", [candidate, bookie, journal_node])
@pytest.mark.parametrize(("silence_seconds", "outage_seconds"), [(0.0, 10.5), (1.0, 9.5), (5.0, 8.0)])
def test_a_lease_outlasts_an_outage_that_ends_before_it(
    keeper: Keeper, silence_seconds: float, outage_seconds: float
) -> None:
    async def scenario() -> None:
        store = SilentStore(MemoryData())
        store.silence_seconds = silence_seconds
        async with keeper(store) as is_held:
            store.is_silent = True
            await asyncio.sleep(outage_seconds)
            store.is_silent = False
            await asyncio.sleep(LEASE_SECONDS - outage_seconds + SOON)
            assert is_held(), "renewed after the outage"
            await asyncio.sleep(2 * LEASE_SECONDS)
            assert is_held()

    run(scenario, VirtualLoop())


@pytest.mark.parametrize("keeper", [candidate, bookie, journal_node])
def test_a_lease_that_was_not_renewed_in_its_time_counts_as_lost_before_the_store_ends_it(
    keeper: Keeper,
) -> None:
    async def scenario() -> None:
        store = SilentStore(MemoryData())
        async with keeper(store) as is_held:
            await asyncio.sleep(LEASE_SECONDS / RENEWALS_PER_LEASE + SOON)
            assert is_held()
            store.is_silent = True
            await asyncio.sleep(LEASE_SECONDS)
            assert not is_held()

    run(scenario, VirtualLoop())
