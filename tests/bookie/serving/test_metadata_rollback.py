"""Whether the metadata went back: what a bookie takes for it, and what not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bookie.serving.directory import read_cookie
from bookie.serving.history import directory_generation
from bookie.serving.history.directory_generation import Lives
from bookie.serving.history.metadata_rollback import RollbackDetector
from bookie.storage.bookie import Bookie
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import Noticed
from metadata.errors import StoreRefused
from metadata.memory import MemoryData, MemoryStore
from metadata.records import decommissioned, ledger_ids
from metadata.records.decommissioned import Decommissioned
from metadata.records.directory_generations import Life
from metadata.store import Lease
from tests.bookie.bookies import append, bookie_on
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import formatted


@asynccontextmanager
async def detecting(path: Path) -> AsyncIterator[tuple[MemoryStore, Bookie, Lives, RollbackDetector]]:
    """A bookie that was formatted and has not begun its first life."""
    store = MemoryStore()
    await formatted(path, store)
    cookie = read_cookie(path / "b1")
    async with bookie_on(path / "b1", incarnation=cookie.incarnation) as bookie:
        lives = await directory_generation.look(path / "b1", cookie, store)
        yield store, bookie, lives, RollbackDetector(store, bookie, lives)


async def test_a_write_of_its_own_whose_answer_was_lost_is_no_sign_and_hinders_no_later_one(
    tmp_path: Path,
) -> None:
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


async def test_a_key_of_its_own_that_is_older_or_gone_is_a_sign(tmp_path: Path) -> None:
    async with detecting(tmp_path) as (store, bookie, lives, looking):
        await lives.begin(0)
        assert not await looking.look_once()
        found = await store.get(keys.life("b1"))
        assert found is not None
        await store.delete(found.key, found.version)
        assert await looking.look_once()
        held = await hold.read(store)
        assert held is not None
        assert held.noticed == Noticed("b1", "the version of the key lives/b1", 0, found.version)
        assert not await looking.look_once(), "it is told once"
        after_a_crash = await directory_generation.look(tmp_path / "b1", lives.cookie, store)
        assert not await RollbackDetector(store, bookie, after_a_crash).look_once(), "also by its next life"
        await lives.write(Life(lives.here, 7))


async def test_a_revision_that_is_lower_than_it_was_is_a_sign_and_both_are_recorded(tmp_path: Path) -> None:
    async with detecting(tmp_path) as (store, _, lives, looking):
        assert not await looking.look_once()
        now = lives.revision
        lives.revision += 7
        assert await looking.look_once()
        held = await hold.read(store)
        assert held is not None and held.noticed is not None
        assert held.noticed == Noticed("b1", "the metadata's revision", now, now + 7)
        assert str(held.noticed) == (
            f"bookie b1 found the metadata's revision at {now}, where {now + 7} or more was expected"
        )


async def test_a_key_that_is_gone_because_the_bookie_was_decommissioned_is_no_sign(tmp_path: Path) -> None:
    """It hung meanwhile, or its network did."""
    async with detecting(tmp_path) as (store, _, lives, looking):
        await lives.begin(0)
        found = await store.get(keys.life("b1"))
        assert found is not None
        await decommissioned.note(store, Decommissioned("b1", lives.cookie.incarnation, 1))
        await store.delete(found.key, found.version)
        assert not await looking.look_once()
        assert await hold.read(store) is None


async def test_what_was_noticed_counts_at_once_and_the_ids_as_soon_as_the_disk_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sick() -> None:
        raise OSError(5, "the disk is broken")

    async with detecting(tmp_path) as (store, bookie, lives, looking):
        await append(bookie, frame_of(41, [0]))
        assert not await looking.look_once()
        lives.revision += 1000
        with monkeypatch.context() as patch:
            patch.setattr(bookie, "checkpoint", sick)
            with pytest.raises(OSError, match="broken"):
                await looking.look_once()
            assert lives.revision < 1000, "nobody is told any more that it went back"
            assert await hold.accept(store)
            with pytest.raises(OSError, match="broken"):
                await looking.look_once()
        assert await hold.read(store) is None, "it was accepted"
        assert not await looking.look_once()
        assert await ledger_ids.counted_end(store) > 41


class Denied(MemoryStore):
    """To this user."""

    async def create(
        self, key: str, value: bytes, *, lease: Lease | None = None, unless: str | None = None
    ) -> int:
        if key == keys.RESTORED:
            raise StoreRefused("etcd: permission denied")
        return await super().create(key, value, lease=lease, unless=unless)


async def test_who_may_not_hold_back_is_told_what_to_grant_and_need_not_where_it_is_done() -> None:
    store = Denied(data := MemoryData())
    with pytest.raises(StoreRefused, match=r"'restored' .*permission denied.*bookledger metadata roles"):
        await hold.begin(store, backup_ms=0, now_ms=1)
    await hold.begin(MemoryStore(data), backup_ms=7, now_ms=1)
    await hold.begin(store, backup_ms=0, now_ms=2)
    found = await hold.read(store)
    assert found is not None and found.backup_ms == 7
