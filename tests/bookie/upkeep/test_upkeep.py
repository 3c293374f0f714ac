"""Rounds of upkeep by themselves and by command, suspended and resumed, on a bookie as the daemon runs it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bookie.errors import BookieError, DiskIsFull
from bookie.serving.daemon import RunningBookie
from bookie.upkeep import upkeep as upkeep_module
from bookie.upkeep.collecting.compactor import Compactor
from bookie.upkeep.schedule import Depth
from bookie.upkeep_config import UpkeepConfig
from bookie.wire.messages import MaintainRequest, MaintenanceAction, Status
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryStore
from metadata.records.ledger_store import LedgerStore
from tests.bookie.entries import frame_of
from tests.bookie.logs import use_small_sizes
from tests.bookie.serving.served import Client, served
from tests.support.aio import until_true
from tests.support.faulty_store import FaultyStore
from tests.support.ledgers import delete

OK = Status.OK
OFTEN = UpkeepConfig(collection_seconds=0.05, minor_compaction_seconds=0.1, major_compaction_seconds=0.2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "LOOK_SECONDS", 0.02)
    use_small_sizes(monkeypatch, segment=2048, group=512, step=512)


async def fill(client: Client) -> None:
    for entry_id in range(40):
        frames = (frame_of(7, [entry_id]), frame_of(8, [entry_id]))
        assert [ack.status for ack in await client.append(client.request(1, *frames))] == [OK, OK]


async def say(bookie: RunningBookie, action: MaintenanceAction) -> dict[str, Any]:
    reply = await bookie.upkeep.maintain(MaintainRequest(action))
    assert reply.status is OK
    said: dict[str, Any] = json.loads(reply.report)
    return said


async def is_read(client: Client) -> bool:
    reply = await client.read(8, 0, 39)
    return len(reply.columns) == 40 and reply.damaged == ()


async def test_space_comes_back_by_itself_when_a_ledger_is_deleted(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store, upkeep=OFTEN) as client:
        await fill(client)
        await delete(LedgerStore(store), 7)

        async def is_gone() -> bool:
            there = list((tmp_path / "b1" / "log").iterdir())
            return not any(b"ledger 7" in segment.read_bytes() for segment in there if segment.exists())

        await until_true(is_gone)
        assert await is_read(client)


async def test_a_round_by_command_says_what_it_did(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        await fill(client)
        await delete(LedgerStore(store), 7)
        said = await say(client.bookie, MaintenanceAction.COLLECT)
        assert said["round"] == "major"
        assert said["ledgers_forgotten"] == 1
        assert said["segments_dropped"] > 2
        assert said["bytes_freed"] > said["bytes_moved"] > 0
        status = await say(client.bookie, MaintenanceAction.STATUS)
        assert status["last_round"] == said
        assert await is_read(client)


async def test_rounds_that_are_asked_for_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        await fill(client)
        await delete(LedgerStore(store), 7)
        upkeep = client.bookie.upkeep
        said = await asyncio.gather(*(upkeep.round(Depth.MAJOR) for _ in range(3)))
        assert [one["ledgers_forgotten"] for one in said] == [1, 0, 0]
        assert await is_read(client)


async def test_suspending_interrupts_a_round_and_keeps_others_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    begun, never = asyncio.Event(), asyncio.Event()
    real = Compactor._move

    async def stuck(*_: Any) -> None:
        begun.set()
        await never.wait()

    monkeypatch.setattr(Compactor, "_move", stuck)
    async with served(tmp_path, store) as client:
        upkeep = client.bookie.upkeep
        await fill(client)
        await delete(LedgerStore(store), 7)
        working = asyncio.ensure_future(upkeep.round(Depth.MAJOR))
        await begun.wait()
        assert (await say(client.bookie, MaintenanceAction.STATUS))["working"]
        assert (await say(client.bookie, MaintenanceAction.SUSPEND))["suspended"]
        with pytest.raises(BookieError, match="suspended"):
            await working
        with pytest.raises(BookieError, match="gc resume"):
            await upkeep.round(Depth.COLLECT)
        assert await is_read(client)
        monkeypatch.setattr(Compactor, "_move", real)
        assert not (await say(client.bookie, MaintenanceAction.RESUME))["suspended"]
        assert (await say(client.bookie, MaintenanceAction.COLLECT))["segments_dropped"] > 2
        assert await is_read(client)


async def test_a_stopping_bookie_does_not_wait_for_its_upkeep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    begun, never = asyncio.Event(), asyncio.Event()

    async def stuck(*_: Any) -> None:
        begun.set()
        await never.wait()

    monkeypatch.setattr(Compactor, "_move", stuck)
    async with served(tmp_path, store, upkeep=OFTEN) as client:
        await fill(client)
        await delete(LedgerStore(store), 7)
        await begun.wait()
    async with served(tmp_path, store) as client:
        assert await is_read(client)


@pytest.mark.parametrize("trouble", ["the metadata is gone", "the disk is full"])
async def test_a_round_that_fails_comes_again_and_the_bookie_serves_on(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failure must not stop all later collections."""
    store, failures = FaultyStore(), 0
    real = Compactor._move

    async def full(*_: Any) -> None:
        nonlocal failures
        failures += 1
        raise DiskIsFull("no space")

    async def failed_twice() -> bool:
        return max(failures, store.failures) >= 2

    async def is_collected() -> bool:
        return (await client.read(7, 0, 0)).status is Status.NO_SUCH_LEDGER

    if trouble == "the disk is full":
        monkeypatch.setattr(Compactor, "_move", full)
    async with served(tmp_path, store, upkeep=OFTEN) as client:
        await fill(client)
        await delete(LedgerStore(store), 7)
        if trouble == "the metadata is gone":
            store.fail(StoreUnavailable("no answer"), calls=["list_page"])
        await until_true(failed_twice)
        assert await is_read(client)
        store.heal()
        monkeypatch.setattr(Compactor, "_move", real)
        await until_true(is_collected)
        assert await is_read(client)
