"""Whether the metadata went back: what a bookie takes for it, and what not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bookie.serving.directory import read_cookie
from bookie.serving.history import directory_generation
from bookie.serving.history.directory_generation import Lives
from bookie.serving.history.metadata_rollback import RollbackDetector
from bookie.storage.bookie import Bookie
from metadata import keys
from metadata.backup import hold
from metadata.memory import MemoryStore
from metadata.records import decommissioned
from metadata.records.decommissioned import Decommissioned
from metadata.records.directory_generations import Life
from tests.bookie.bookies import bookie_on
from tests.bookie.serving.served import formatted
from tests.support.aio import run


@asynccontextmanager
async def detecting(path: Path) -> AsyncIterator[tuple[MemoryStore, Bookie, Lives, RollbackDetector]]:
    """A bookie that was formatted and has not begun its first life."""
    store = MemoryStore()
    await formatted(path, store)
    cookie = read_cookie(path / "b1")
    async with bookie_on(path / "b1", incarnation=cookie.incarnation) as bookie:
        lives = await directory_generation.look(path / "b1", cookie, store)
        yield store, bookie, lives, RollbackDetector(store, bookie, lives)


def test_a_write_of_its_own_whose_answer_was_lost_is_no_sign_and_hinders_no_later_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with detecting(tmp_path) as (store, _, lives, looking):
            assert not await looking.look_once()
            await lives.begin(0)
            found = await store.get(keys.life("b1"))
            assert found is not None
            await store.replace(found.key, found.value, found.version)  # ours, as far as anybody knows
            assert not await looking.look_once()
            await lives.write(Life(lives.here, 7))
            assert await hold.read(store) is None
            assert not await looking.look_once()

    run(test())


def test_a_key_of_its_own_that_is_older_or_gone_is_a_sign(tmp_path: Path) -> None:
    async def test() -> None:
        async with detecting(tmp_path) as (store, bookie, lives, looking):
            await lives.begin(0)
            assert not await looking.look_once()
            found = await store.get(keys.life("b1"))
            assert found is not None
            await store.delete(found.key, found.version)
            assert await looking.look_once()
            assert await hold.read(store) is not None
            assert not await looking.look_once(), "it is told once"
            after_a_crash = await directory_generation.look(tmp_path / "b1", lives.cookie, store)
            assert not await RollbackDetector(store, bookie, after_a_crash).look_once(), (
                "also by its next life"
            )
            await lives.write(Life(lives.here, 7))

    run(test())


def test_a_key_that_is_gone_because_the_bookie_was_decommissioned_is_no_sign(tmp_path: Path) -> None:
    """It hung meanwhile, or its network did."""

    async def test() -> None:
        async with detecting(tmp_path) as (store, _, lives, looking):
            await lives.begin(0)
            found = await store.get(keys.life("b1"))
            assert found is not None
            await decommissioned.note(store, Decommissioned("b1", lives.cookie.incarnation, 1))
            await store.delete(found.key, found.version)
            assert not await looking.look_once()
            assert await hold.read(store) is None

    run(test())
