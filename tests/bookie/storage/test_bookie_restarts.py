"""B2: after a stop or any crash everything acknowledged is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bookie.errors import DamagedLog
from bookie.storage.bookie import Bookie
from bookie.wire.messages import Frame, LacReply, Status
from tests.bookie.bookies import (
    append,
    bookie_on,
    entries,
    lac_request,
    open_bookie,
    read,
    read_request,
)
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import use_small_sizes
from tests.bookie.simulated_disk import SimulatedDisk
from tests.support.aio import run

OK = Status.OK

LIVES = 4
FRAMES_PER_LIFE = 8


async def test_a_restart_keeps_entries_fences_and_last_add_confirmed(tmp_path: Path) -> None:
    """B2, R1: also a fence of a ledger this bookie knows nothing else of."""
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, range(5), lac=3), frame_of(8, [0, 3]))
        await bookie.fence(8)
        await bookie.fence(404)
    for _ in range(2):
        async with bookie_on(tmp_path) as bookie:
            assert await read(bookie, 7) == entries(7, range(5))
            assert await read(bookie, 8) == entries(8, [0, 3])
            assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(3))
            assert await append(bookie, frame_of(8, [4]), frame_of(404, [0])) == [Status.FENCED] * 2
            assert (await bookie.read(read_request(404))).status is Status.NO_SUCH_LEDGER


async def _without_close(directory: Path, disk: SimulatedDisk, *frames: Frame) -> None:
    """A life that ends in a crash: nothing was checkpointed after the start."""
    bookie = await open_bookie(directory, disk)
    assert set(await append(bookie, *frames)) == {OK}
    assert await bookie.fence(404) == (OK, "")
    disk.power_off_before(0)
    await bookie.close()


async def test_B2_a_crash_loses_nothing_acknowledged_whatever_the_checkpoint(tmp_path: Path) -> None:
    disk = SimulatedDisk(Random(1))
    for life in range(3):
        await _without_close(tmp_path, disk, frame_of(7, [life], lac=life - 1), frame_of(9 + life, [0]))
        disk.crash()
    async with bookie_on(tmp_path, disk) as bookie:
        assert await read(bookie, 7) == entries(7, range(3))
        assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(OK, lac_of(1))
        assert await append(bookie, frame_of(404, [0])) == [Status.FENCED]


async def test_an_index_that_was_lost_is_made_again_from_the_log(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, range(3), lac=1))
        await bookie.fence(404)
    for file in (tmp_path / "index").iterdir():
        file.unlink()
    async with bookie_on(tmp_path) as bookie:
        assert await read(bookie, 7) == entries(7, range(3))
        assert await append(bookie, frame_of(404, [0])) == [Status.FENCED]


async def test_R6_a_log_that_lost_a_segment_refuses_to_start(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, [0]))
    for file in (tmp_path / "log").iterdir():
        file.unlink()
    with pytest.raises(DamagedLog, match=r"00000000\.log"):
        await open_bookie(tmp_path)


async def _first_of(bookie: Bookie, asked: list[asyncio.Task[None]]) -> None:
    """Returns when one of the requests is answered, or the log has failed."""
    either: list[asyncio.Future[Any]] = [*asked, bookie.failed]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)


async def _one_life(directory: Path, disk: SimulatedDisk, random: Random, known: dict[int, set[int]]) -> None:
    """Appends and fences until the power goes; `known` gathers what was acknowledged, −1 for a fence."""
    try:
        bookie = await open_bookie(directory, disk, checkpoint_frames_max=3)
    except OSError:
        return
    checkpoints = asyncio.create_task(bookie.run_checkpoints())

    async def ask(ledger_id: int, entry_id: int) -> None:
        if entry_id < 0:
            status, _ = await bookie.fence(ledger_id)
        else:
            [status] = await append(bookie, frame_of(ledger_id, [entry_id], lac=entry_id - 1))
        if status is OK:
            known.setdefault(ledger_id, set()).add(entry_id)
        else:
            assert status is Status.FENCED or bookie.failed.done()

    asked = []
    for _ in range(FRAMES_PER_LIFE):
        asked.append(asyncio.create_task(ask(random.randrange(4), random.randrange(-1, 12))))
        if random.random() < 0.4:
            await _first_of(bookie, asked)
    while not bookie.failed.done() and (waiting := [one for one in asked if not one.done()]):
        await _first_of(bookie, waiting)
    disk.power_off_before(0)
    checkpoints.cancel()
    await asyncio.wait([checkpoints])
    await bookie.close()
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    for one in asked:
        if not one.cancelled():
            one.result()  # raises what the checks in `ask` found


@pytest.mark.parametrize("seed", range(24))
def test_a_bookie_that_crashes_again_and_again_keeps_all_it_acknowledged(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B1, B2, R1"""
    use_small_sizes(monkeypatch, segment=1200, group=420, step=600)

    async def test(directory: Path) -> None:
        random = Random(seed)
        disk = SimulatedDisk(random)
        known: dict[int, set[int]] = {}
        for _ in range(LIVES):
            disk.power_off_before(random.randrange(5, 60))
            await _one_life(directory, disk, random, known)
            disk.crash()
        async with bookie_on(directory, disk) as bookie:
            for ledger_id, entry_ids in known.items():
                stored = entry_ids - {-1}
                found = await read(bookie, ledger_id) if stored else []
                assert [one for one in found if one[0] in stored] == entries(ledger_id, sorted(stored))
                if -1 in entry_ids:
                    assert await append(bookie, frame_of(ledger_id, [99])) == [Status.FENCED]

    with TemporaryDirectory() as directory:
        run(test(Path(directory)))
