"""After a stop or any crash everything acknowledged is there (B2)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from bookie.errors import DamagedLog
from bookie.wire.messages import LacReply, Status
from tests.bookie.bookies import append, bookie_on, entries, lac_request, open_bookie, read, read_request
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.simulated_disk import SimulatedDisk

OK = Status.OK


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


async def test_a_crash_loses_nothing_acknowledged_whatever_the_checkpoint(tmp_path: Path) -> None:
    disk = SimulatedDisk(Random(1))
    for life in range(3):  # nothing is checkpointed after its start
        bookie = await open_bookie(tmp_path, disk)
        frames = frame_of(7, [life], lac=life - 1), frame_of(9 + life, [0])
        assert await append(bookie, *frames) == [OK, OK]
        assert await bookie.fence(404) == (OK, "")
        disk.power_off_before(0)
        await bookie.close()
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


async def test_a_log_that_lost_a_segment_refuses_to_start(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, [0]))
    for file in (tmp_path / "log").iterdir():
        file.unlink()
    with pytest.raises(DamagedLog, match=r"00000000\.log"):
        await open_bookie(tmp_path)
