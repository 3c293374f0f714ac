"""B4, M2: a bookie that turns read-only says so under its one key, without ever letting go of its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bookie.serving.registration import Registrar
from metadata import keys
from metadata.errors import OutcomeUnknown, StoreUnavailable
from metadata.memory import MemoryData, MemoryStore
from metadata.records.cluster import find_bookie, list_bookies
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.store import MetadataStore
from tests.support.aio import cancel, run, until_true

LEASE_SECONDS = 0.3


class SilentReplace(MemoryStore):
    """Makes the first change and loses its answer, or refuses it, as the test says."""

    def __init__(self, data: MemoryData, *, makes_it: bool) -> None:
        super().__init__(data)
        self._makes_it = makes_it
        self.replaced = 0

    async def replace(
        self, key: str, value: bytes, version: int, *, unless: str | None = None, begins: bytes = b""
    ) -> int:
        self.replaced += 1
        if self.replaced > 1:
            return await super().replace(key, value, version, unless=unless, begins=begins)
        if not self._makes_it:
            raise StoreUnavailable("silent")
        await super().replace(key, value, version, unless=unless, begins=begins)
        raise OutcomeUnknown("silent")


@asynccontextmanager
async def registered(store: MetadataStore) -> AsyncIterator[Registrar]:
    registrar = Registrar(store, Registration(BookieRef("b1", "i1"), "host:1"), LEASE_SECONDS)
    await registrar.register()
    keeping = asyncio.create_task(registrar.keep())
    try:
        yield registrar
    finally:
        await cancel(keeping)


async def until_writable_is(store: MetadataStore, writable: bool) -> None:
    async def holds() -> bool:
        found = await find_bookie(store, "b1")
        return found is not None and found.writable == writable

    await until_true(holds)


async def test_a_read_only_bookie_is_listed_as_one_and_comes_back() -> None:
    store = MemoryStore()
    async with registered(store) as registrar:
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        assert [(r.bookie.bookie_id, r.writable) for r in await list_bookies(store)] == [("b1", False)]
        registrar.set_read_only(False)
        await until_writable_is(store, True)


async def test_the_change_keeps_the_lease_and_the_lease_the_registration() -> None:
    """It vanishes with the bookie as before."""
    store = MemoryStore()
    async with registered(store) as registrar:
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        await asyncio.sleep(2 * LEASE_SECONDS)  # renewed meanwhile, or it were gone
        assert await find_bookie(store, "b1") is not None

    async def gone() -> bool:
        return await find_bookie(store, "b1") is None

    await until_true(gone)


def test_a_change_the_store_was_silent_about_is_made_in_the_end() -> None:
    async def scenario(*, makes_it: bool) -> None:
        store = SilentReplace(MemoryData(), makes_it=makes_it)
        async with registered(store) as registrar:
            registrar.set_read_only(True)
            await until_writable_is(store, False)
            registrar.set_read_only(False)
            await until_writable_is(store, True)

    run(scenario(makes_it=True))
    run(scenario(makes_it=False))


async def test_a_registration_that_was_lost_is_retaken_as_read_only() -> None:
    store = MemoryStore()
    async with registered(store) as registrar:
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        found = await store.get(keys.bookie("b1"))
        assert found is not None and registrar._lease is not None
        await store.revoke_lease(registrar._lease)
        await until_writable_is(store, False)


async def test_another_bookie_of_the_name_is_never_overwritten() -> None:
    store = MemoryStore()
    async with registered(store) as registrar:
        assert registrar._lease is not None
        await store.revoke_lease(registrar._lease)
        other = Registration(BookieRef("b1", "i2"), "elsewhere:1")
        await store.create(other.key, other.encode())
        registrar.set_read_only(True)
        await asyncio.sleep(LEASE_SECONDS)
        assert await find_bookie(store, "b1") == other
