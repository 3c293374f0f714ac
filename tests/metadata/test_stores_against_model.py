"""SQLite and etcd do what the model does, under drawn operations and faults at every message and statement."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from metadata.etcd import watch as watch_module
from metadata.etcd.config import EtcdConfig
from metadata.etcd.store import EtcdStore
from metadata.memory_store import MemoryData, MemoryStore
from metadata.sqlite.store import SqliteStore
from metadata.store import MetadataStore
from tests.contracts.store_against_model import AgainstModel
from tests.support.etcd import EtcdServer
from tests.support.long_runs import first_then_long
from tests.support.model_etcd import Break, ModelEtcd

OPERATIONS = 60
FAULT_SHARE = 0.15
SEEDS_CALM = range(8)
SEEDS_BROKEN = range(40)
SEEDS_REAL = range(4)
TIMEOUT_SECONDS = 0.3


async def _follows(stores: list[MetadataStore], seed: int) -> None:
    async with AsyncExitStack() as stack:
        for store in stores:
            stack.push_async_callback(store.close)
        await AgainstModel(stores, seed).run(OPERATIONS)


@pytest.mark.parametrize("seed", SEEDS_CALM)
async def test_the_model_follows_itself(seed: int) -> None:
    data = MemoryData()
    await _follows([MemoryStore(data), MemoryStore(data)], seed)


# --- SQLite -----------------------------------------------------------------------------------------


class BreakingConnection(sqlite3.Connection):
    """Fails at drawn statements: before they are done, or, a commit, right after."""

    random = Random(0)
    share = 0.0

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        breaks = self.random.random() < self.share
        if breaks and not (sql == "COMMIT" and self.random.random() < 0.5):
            raise sqlite3.OperationalError("disk I/O error")
        done = super().execute(sql, *arguments)
        if breaks:
            raise sqlite3.OperationalError("disk I/O error, told too late")
        return done


@pytest.fixture
def breaking_sqlite(monkeypatch: pytest.MonkeyPatch) -> type[BreakingConnection]:
    connect = sqlite3.connect

    def connects(*arguments: Any, **settings: Any) -> sqlite3.Connection:
        return connect(*arguments, **settings, factory=BreakingConnection)

    monkeypatch.setattr(sqlite3, "connect", connects)
    monkeypatch.setattr(BreakingConnection, "share", 0.0)
    return BreakingConnection


@pytest.mark.parametrize("seed", SEEDS_CALM)
async def test_sqlite_does_what_the_model_does(seed: int, tmp_path: Path) -> None:
    path = str(tmp_path / "metadata.db")
    await _follows([SqliteStore(path), SqliteStore(path)], seed)


@pytest.mark.parametrize("seed", first_then_long(SEEDS_BROKEN, 10))
async def test_sqlite_that_fails_at_any_statement_does_what_the_model_does(
    seed: int, tmp_path: Path, breaking_sqlite: type[BreakingConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1: what it calls certain is so; where a commit's answer is lost it has happened, or not."""
    path = str(tmp_path / "metadata.db")
    store, other = SqliteStore(path), SqliteStore(path)
    await store.open()
    monkeypatch.setattr(breaking_sqlite, "random", Random(seed))
    monkeypatch.setattr(breaking_sqlite, "share", FAULT_SHARE / 3)
    await _follows([store, other], seed)


# --- etcd -------------------------------------------------------------------------------------------


@pytest.fixture
def resumes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "RESUME_PAUSE_SECONDS", 0.0)


def _breaks(seed: int) -> dict[int, Break]:
    random = Random(seed)
    kinds = [Break.UNAVAILABLE, Break.RESET, Break.LOST, Break.ENDED]
    kinds += [Break.SILENT] if seed % 4 == 0 else []
    return {n: random.choice(kinds) for n in range(2, 2000) if random.random() < FAULT_SHARE}


@pytest.mark.parametrize("seed", first_then_long(SEEDS_BROKEN, 10))
@pytest.mark.usefixtures("resumes_at_once")
async def test_etcd_that_breaks_at_any_message_does_what_the_model_does(seed: int) -> None:
    """M1: no write is sent twice, no event is lost or repeated."""
    etcd = ModelEtcd(_breaks(seed))
    async with etcd.serving() as endpoint:
        config = EtcdConfig((endpoint,), "p", timeout=TIMEOUT_SECONDS)
        await _follows([EtcdStore(config), EtcdStore(config)], seed)


@pytest.fixture(scope="module")
def real_etcd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    etcd = EtcdServer(tmp_path_factory.mktemp("etcd"))
    etcd.start()
    yield etcd
    etcd.stop()


@pytest.mark.parametrize("seed", SEEDS_REAL)
async def test_a_real_etcd_does_what_the_model_does_also_when_it_is_restarted(
    seed: int, real_etcd: EtcdServer
) -> None:
    config = EtcdConfig((real_etcd.endpoint,), f"p{seed}", timeout=2.0)
    following = asyncio.create_task(_follows([EtcdStore(config), EtcdStore(config)], seed))
    if seed % 2:
        await asyncio.sleep(0)
        await asyncio.to_thread(real_etcd.kill)
        await asyncio.to_thread(real_etcd.restart)
    await following
