"""M2: a registration dies with its bookie, is retaken when the store comes back, and is never shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bookie.errors import NameTaken
from bookie.serving import bookie_registration
from bookie.serving.bookie_registration import Registrar, lock_identity
from bookie.serving.directory import COOKIE
from metadata import keys
from metadata.errors import LeaseLost, OutcomeUnknown, StoreUnavailable
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.cluster import find_bookie, list_bookies
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from metadata.sqlite.store import SqliteStore
from metadata.store import MetadataStore
from tests.support.aio import cancel, run, until_true
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

LEASE_SECONDS = 0.3
OpenStore = Callable[[], MetadataStore]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Another handle on this test's metadata, each time it is called."""
    data = MemoryData()
    if request.param == "memory":
        return lambda: MemoryStore(data)
    return lambda: SqliteStore(str(tmp_path / "meta.db"))


@asynccontextmanager
async def opened(open_store: OpenStore) -> AsyncIterator[MetadataStore]:
    store = open_store()
    try:
        yield store
    finally:
        await store.close()


def registrar_on(
    store: MetadataStore,
    incarnation: str = "i1",
    address: str = "host:3181",
    name: str = "b1",
    lock: bytes = b"",
    lease_seconds: float = LEASE_SECONDS,
) -> Registrar:
    made = Registration(BookieRef(name, incarnation), address, "rack-1")
    return Registrar(store, made, lease_seconds, lock_identity=lock)


async def address_of(store: MetadataStore) -> str | None:
    found = await find_bookie(store, "b1")
    return None if found is None else found.address


def is_registered(store: MetadataStore, address: str | None = "host:3181") -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await address_of(store) == address

    return check


async def stays_registered(store: MetadataStore, seconds: float, address: str = "host:3181") -> None:
    over = asyncio.get_running_loop().time() + seconds

    async def is_over() -> bool:
        assert await address_of(store) == address
        return asyncio.get_running_loop().time() > over

    await until_true(is_over)


@asynccontextmanager
async def kept(registrar: Registrar) -> AsyncIterator[asyncio.Task[None]]:
    """Registered and kept alive inside the block; nothing is given up after it, as in a crash."""
    await registrar.take()
    keeping = asyncio.create_task(registrar.keep())
    try:
        yield keeping
    finally:
        await cancel(keeping)


async def test_a_registration_tells_who_it_is_and_where_it_answers(open_store: OpenStore) -> None:
    async with opened(open_store) as store, kept(registrar_on(store)):
        found = there(await find_bookie(store, "b1"))
        assert (found.bookie, found.address, found.fault_domain, found.writable) == (
            BookieRef("b1", "i1"),
            "host:3181",
            "rack-1",
            True,
        )


async def test_M2_a_second_bookie_of_the_same_name_is_refused_while_the_first_lives(
    open_store: OpenStore,
) -> None:
    async with (
        opened(open_store) as one,
        opened(open_store) as other,
        kept(registrar_on(one, lease_seconds=60)),
    ):
        for incarnation, address in (("i2", "host:3181"), ("i1", "host:3181"), ("i2", "other:3181")):
            second = registrar_on(other, incarnation, address)
            with pytest.raises(NameTaken, match="another bookie is registered as b1"):
                await second.take()
            await second.give_up()
            found = there(await find_bookie(other, "b1"))
            assert (found.bookie.incarnation, found.address) == ("i1", "host:3181")


async def test_M2_a_registration_dies_with_its_bookie_and_the_name_is_free_again(
    open_store: OpenStore,
) -> None:
    async with opened(open_store) as store:
        async with kept(registrar_on(store)):
            pass  # and then it is dead
        async with kept(registrar_on(store, "i2", "other:3181")):
            assert await address_of(store) == "other:3181"


@pytest.mark.parametrize("address", ["host:3181", "host:4000"], ids=["same port", "other port"])
async def test_a_bookie_takes_over_at_once_what_its_own_last_life_left(
    open_store: OpenStore, address: str
) -> None:
    """It holds the very lock under which that registration was made, so that life is over."""
    async with opened(open_store) as store:
        async with kept(registrar_on(store, lock=b"lock 1")):
            pass
        started = asyncio.get_running_loop().time()
        async with kept(registrar_on(store, address=address, lock=b"lock 1")):
            assert asyncio.get_running_loop().time() - started < LEASE_SECONDS / 2
            await stays_registered(store, 2 * LEASE_SECONDS, address)


@pytest.mark.parametrize("lock", [b"lock 2", b""], ids=["another lock", "no lock"])
async def test_the_same_directory_on_a_machine_that_does_not_see_the_lock_is_refused(
    open_store: OpenStore, lock: bytes
) -> None:
    """M2: same name, incarnation and address; only the lock is not the one the first bookie holds."""
    async with opened(open_store) as one, opened(open_store) as other:
        first, second = registrar_on(one, lock=b"lock 1"), registrar_on(other, lock=lock)
        async with kept(first) as keeping:
            with pytest.raises(NameTaken):
                await second.take()
            await second.give_up()
            assert not keeping.done()


def test_a_lock_is_known_by_the_file_that_is_locked(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / COOKIE).write_text("the same")
    one = lock_identity(tmp_path / "one")
    assert one == lock_identity(tmp_path / "one")
    assert one != lock_identity(tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "moved")
    assert one == lock_identity(tmp_path / "moved")


def test_the_same_file_on_another_running_kernel_is_another_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / COOKIE).touch()
    here = lock_identity(tmp_path)
    (tmp_path / "boot").write_text("7b1c2c1e-0000-4000-8000-000000000000\n")
    monkeypatch.setattr(bookie_registration, "BOOT_ID", tmp_path / "boot")
    assert lock_identity(tmp_path) not in (here, b"")
    monkeypatch.setattr(bookie_registration, "BOOT_ID", tmp_path / "not there")
    assert lock_identity(tmp_path) == b""


DOWN = StoreUnavailable("the store is down")


async def forget_lease(registrar: Registrar) -> None:
    """It runs out, as in a long pause of the bookie."""
    await registrar._store.revoke_lease(there(registrar.held._lease))


@pytest.mark.parametrize(
    "create_failures",
    [[], [DOWN], [DOWN, DOWN, DOWN], [OutcomeUnknown("lost")], [LeaseLost(1)]],
    ids=["at once", "down once", "down for long", "unknown", "lost again"],
)
def test_M2_a_lost_registration_is_retaken_when_the_store_is_back(create_failures: list[Exception]) -> None:
    """M2: also when the store goes away once more just then."""

    async def test() -> None:
        store = FaultyStore()
        registrar = registrar_on(store)
        async with kept(registrar):
            for error in create_failures:
                store.fail(error, calls=["create"], bad=1)
            await forget_lease(registrar)
            assert await address_of(store) is None
            await until_true(is_registered(store), LEASE_SECONDS / 10)

    run(test(), 10)


async def test_M2_a_bookie_that_lost_its_name_to_another_one_says_so() -> None:
    data = MemoryData()
    store, other = FaultyStore(data), MemoryStore(data)
    registrar = registrar_on(store)
    async with kept(registrar) as keeping:
        await forget_lease(registrar)
        async with kept(registrar_on(other, "i2", "other:3181")):
            with pytest.raises(NameTaken):
                await keeping
            assert await address_of(other) == "other:3181"


# --- B4: a bookie that turns read-only says so under its one key, without ever letting go of its name


async def until_writable_is(store: MetadataStore, writable: bool) -> None:
    async def holds() -> bool:
        found = await find_bookie(store, "b1")
        return found is not None and found.writable == writable

    await until_true(holds)


async def test_a_read_only_bookie_is_listed_as_one_and_comes_back() -> None:
    store = MemoryStore()
    registrar = registrar_on(store)
    async with kept(registrar):
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        assert [(r.bookie.bookie_id, r.writable) for r in await list_bookies(store)] == [("b1", False)]
        registrar.set_read_only(False)
        await until_writable_is(store, True)


async def test_the_change_keeps_the_lease_and_the_lease_the_registration() -> None:
    """It vanishes with the bookie as before."""
    store = MemoryStore()
    registrar = registrar_on(store)
    async with kept(registrar):
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        await asyncio.sleep(2 * LEASE_SECONDS)  # renewed meanwhile, or it were gone
        assert await find_bookie(store, "b1") is not None

    async def gone() -> bool:
        return await find_bookie(store, "b1") is None

    await until_true(gone)


@pytest.mark.parametrize("makes_it", [True, False])
async def test_a_change_the_store_was_silent_about_is_made_in_the_end(makes_it: bool) -> None:
    store = FaultyStore()
    silence = OutcomeUnknown("silent") if makes_it else StoreUnavailable("silent")
    store.fail(silence, calls=["replace"], bad=1, done=makes_it)
    registrar = registrar_on(store)
    async with kept(registrar):
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        registrar.set_read_only(False)
        await until_writable_is(store, True)


async def test_a_registration_that_was_lost_is_retaken_as_read_only() -> None:
    store = MemoryStore()
    registrar = registrar_on(store)
    async with kept(registrar):
        registrar.set_read_only(True)
        await until_writable_is(store, False)
        assert await store.get(keys.bookie("b1")) is not None
        await forget_lease(registrar)
        await until_writable_is(store, False)
