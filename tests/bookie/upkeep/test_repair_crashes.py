"""R6, B2: wherever the power goes while a bookie is mended, nothing is denied that it should hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from bookie.errors import LogFailed
from bookie.log.format import place_of
from bookie.log.segments import name_of
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import open_bookie
from tests.bookie.simulated_disk import Loss, SimulatedDisk
from tests.bookie.upkeep.replicas import (
    B1,
    B2,
    DictionaryPeers,
    Mended,
    closed_ledger,
    hold,
    mended,
    placed,
    tools,
)
from tests.support.aio import run
from tests.support.present import there

LAST = 29
SHAPES = [Shape(3, 3, 2), Shape(3, 2, 2)]
OPERATIONS_MAX = 200
FORMER = BookieRef("b0", "before")


class Scene:
    """A bookie on a disk that loses what was not synced, and ledgers to mend."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.disk = SimulatedDisk(Random(seed))
        self.ledgers = LedgerStore(MemoryStore())
        self.peers = DictionaryPeers(self.ledgers, page_entries=4)

    async def until_the_power_goes(
        self, operations: int, work: Callable[[Mended], Awaitable[object]], loss: Loss
    ) -> bool:
        """Works until so many changes of the disk are done, then crashes; whether the work was done before."""
        bookie = await open_bookie(self.directory, self.disk)
        self.disk.power_off_before(operations)
        try:
            await work(tools(bookie, self.ledgers, self.peers))
            done = True
        except LogFailed:
            done = False
        self.disk.power_off_before(0)
        await bookie.close()
        self.disk.crash(loss)
        return done

    async def reads(self, ledger_id: int) -> tuple[set[int], set[int]]:
        async with mended(self.directory, self.ledgers, self.disk, self.peers) as world:
            given, damaged = await world.read(ledger_id, 0, LAST)
            return set(given), damaged


async def each_crash(seed: int, loss: Loss, play: Callable[[Scene, int], Awaitable[bool]]) -> None:
    """Plays the same, crashing one change of the disk later each time, until it is done before the crash."""
    for operations in range(OPERATIONS_MAX):
        with TemporaryDirectory() as directory:
            if await play(Scene(Path(directory), seed + operations), operations):
                assert operations > 4, "the crashes met nothing"
                return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_R6_a_crash_while_a_ledger_leaves_limbo_denies_none_of_its_entries(shape: Shape, loss: Loss) -> None:
    async def play(scene: Scene, operations: int) -> bool:
        record = await closed_ledger(scene.ledgers, 7, shape, LAST)
        ours = placed(record)
        async with mended(scene.directory, scene.ledgers, scene.disk) as world:
            await hold(world.bookie, 7, ours[3:6], ours[9:])
            await world.limbo()
        done = await scene.until_the_power_goes(operations, lambda world: world.repair.repair_limbo(), loss)
        given, damaged = await scene.reads(7)
        assert set(ours) <= given | damaged
        assert not damaged or damaged >= set(ours) - given
        async with mended(scene.directory, scene.ledgers, scene.disk, scene.peers) as world:
            assert (await world.repair.repair_limbo()).ledgers_unrepaired == 0
            assert await world.read(7, 0, LAST) == (ours, set())
        return done

    run(each_crash(100, loss, play), timeout_seconds=120)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_R6_a_crash_while_a_damaged_frame_is_replaced_denies_none_of_its_entries(shape: Shape) -> None:
    async def play(scene: Scene, operations: int) -> bool:
        record = await closed_ledger(scene.ledgers, 7, shape, LAST)
        ours = placed(record)
        async with mended(scene.directory, scene.ledgers, scene.disk) as world:
            await hold(world.bookie, 7, ours[:5], ours[5:])
            bad = min(place for _, place in world.bookie.index.places(7))
        segment, offset = place_of(bad.position)
        scene.disk.overwrite(name_of(segment), offset + 90, b"rot")
        done = await scene.until_the_power_goes(
            operations, lambda world: world.repair.mend(7, [bad]), Loss.CHAOS
        )
        given, damaged = await scene.reads(7)
        assert set(ours) <= given | damaged
        async with mended(scene.directory, scene.ledgers, scene.disk, scene.peers) as world:
            assert (await world.repair.mend(7, [bad])).why_not == ""
            await world.scrubber.scrub_once()
            assert await world.read(7, 0, LAST) == (ours, set())
        return done

    run(each_crash(200, Loss.CHAOS, play), timeout_seconds=120)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_R6_whenever_the_metadata_names_a_bookie_for_a_lost_one_it_has_every_entry(shape: Shape) -> None:
    """R6, W3: a crash leaves the old record, or the new one with every entry on disk."""

    async def play(scene: Scene, operations: int) -> bool:
        before = await closed_ledger(scene.ledgers, 7, shape, LAST, Fragment(0, (B1, FORMER, B2)))
        done = await scene.until_the_power_goes(
            operations, lambda world: world.repair.adopt("b0", living=None), Loss.CHAOS
        )
        found = there(await scene.ledgers.read(7))
        if found.record.fragments != before.fragments:
            assert await scene.reads(7) == (set(placed(found.record)), set())
        async with mended(scene.directory, scene.ledgers, scene.disk, scene.peers) as world:
            await world.repair.adopt("b0", living=None)
            now = await named(scene.ledgers)
            assert await world.read(7, 0, LAST) == (placed(now), set())
            assert placed(now) == placed(before, FORMER)
        return done

    run(each_crash(300, Loss.CHAOS, play), timeout_seconds=120)


async def named(ledgers: LedgerStore) -> LedgerRecord:
    found = there(await ledgers.read(7))
    return found.record
