"""A fenced bookie refuses the writer, and answers who fenced it only when the fence is on disk (R1)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from bookie.storage import ledger_states
from bookie.storage.bookie import Bookie
from bookie.wire.messages import Status
from tests.bookie.bookies import append, bookie_on, entries, fenced_read, lac_request, read, submit
from tests.bookie.entries import frame_of
from tests.bookie.simulated_disk import SimulatedDisk
from tests.bookie.slow_disk import SlowSyncDisk

OK = Status.OK


async def test_a_fenced_ledger_refuses_its_writer_and_takes_recovery_adds(bookie: Bookie) -> None:
    await append(bookie, frame_of(7, [0]))
    assert await bookie.fence(7) == (OK, "")
    assert await append(
        bookie, frame_of(7, [1]), frame_of(7, [], lac=0), frame_of(7, [1], recovery=True)
    ) == [Status.FENCED, Status.FENCED, OK]
    assert await read(bookie, 7) == entries(7, [0, 1])


@pytest.mark.parametrize("how", ["fence", "read", "last add confirmed"])
async def test_no_fencing_request_is_answered_before_the_fence_is_on_disk(tmp_path: Path, how: str) -> None:
    """R1: and the writer is refused from the moment the fence is submitted."""

    async def ask(bookie: Bookie) -> object:
        match how:
            case "fence":
                return (await bookie.fence(7))[0]
            case "read":
                return (await fenced_read(bookie, 7)).status
            case _:
                return (await bookie.last_add_confirmed(lac_request(7, fence=True))).status

    disk = SlowSyncDisk(tmp_path / "log")
    async with bookie_on(tmp_path, disk) as bookie:
        disk.go_on.clear()
        asked = [asyncio.create_task(ask(bookie)) for _ in range(2)]
        before = submit(bookie, frame_of(8, [0]))
        await asyncio.sleep(0)
        assert await append(bookie, frame_of(7, [0])) == [Status.FENCED]
        assert not before.done() and not any(one.done() for one in asked)
        disk.go_on.set()
        expected = OK if how == "fence" else Status.NO_SUCH_LEDGER
        assert [await one for one in asked] == [expected, expected]
        assert await before == (OK, "")


async def test_a_fencing_read_sees_all_that_was_accepted_before_the_fence(tmp_path: Path) -> None:
    """R3: what it does not see, the writer will never have confirmed here."""
    disk = SlowSyncDisk(tmp_path / "log")
    async with bookie_on(tmp_path, disk) as bookie:
        disk.go_on.clear()
        accepted = submit(bookie, frame_of(7, [0, 1]))
        asked = asyncio.create_task(fenced_read(bookie, 7))
        await asyncio.sleep(0)
        disk.go_on.set()
        assert list((await asked).columns.ids) == [0, 1]
        assert accepted.result() == (OK, "")


async def test_a_fence_on_a_full_disk_is_refused_and_is_no_fence(tmp_path: Path) -> None:
    disk = SimulatedDisk(Random(0), capacity_bytes=64)
    async with bookie_on(tmp_path, disk) as bookie:
        status, detail = await bookie.fence(7)
        assert (status, detail) == (
            Status.READ_ONLY,
            "the bookie's disk accepts no more writes: No space left on device",
        )
        assert (await fenced_read(bookie, 7)).status is Status.READ_ONLY
        assert (await bookie.last_add_confirmed(lac_request(7, fence=True))).status is Status.READ_ONLY
        assert await append(bookie, frame_of(7, [0])) == [Status.READ_ONLY]
        disk.capacity_bytes = None
        await bookie.space.look()
        assert await append(bookie, frame_of(7, [0])) == [OK]
        assert await read(bookie, 7) == entries(7, [0])


async def test_a_fencing_read_fences_a_ledger_that_the_bookie_knows_as_well(tmp_path: Path) -> None:
    """R1, R3: the writer is refused from then on, also after a crash."""
    async with bookie_on(tmp_path) as bookie:
        assert await append(bookie, frame_of(7, [0, 1])) == [OK]
        assert await read(bookie, 7) == entries(7, [0, 1])
        reply = await fenced_read(bookie, 7)
        assert (reply.status, list(reply.columns.ids)) == (OK, [0, 1])
        assert await append(bookie, frame_of(7, [2])) == [Status.FENCED]
    async with bookie_on(tmp_path) as bookie:
        assert await append(bookie, frame_of(7, [2])) == [Status.FENCED]


@pytest.mark.parametrize("checkpoints", [0, 3])
async def test_fences_of_more_ledgers_than_fit_in_memory_all_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    """R1: what is let go of stands in the index."""
    monkeypatch.setattr(ledger_states, "STATES_MAX", 10)
    known, unknown = range(1, 60), range(100, 160)
    async with bookie_on(tmp_path) as bookie:
        for ledger_id in known:
            assert await append(bookie, frame_of(ledger_id, [0])) == [OK]
        for ledger_id in (*known, *unknown):
            assert await bookie.fence(ledger_id) == (OK, "")
        bookie.states.shrink()  # what no checkpoint has reached yet must stay
        for _ in range(checkpoints):
            await bookie.checkpoint()
        if checkpoints:
            assert len(bookie.states) <= ledger_states.STATES_MAX
        for ledger_id in (*known, *unknown):
            assert await append(bookie, frame_of(ledger_id, [1])) == [Status.FENCED]
