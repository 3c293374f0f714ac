"""Frames that cannot be read are fetched anew, and stay damaged until each of their entries stands elsewhere (R6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.upkeep.mending import gap_filling
from bookie.upkeep.reports import Tally
from metadata.records.ledger_record import Shape
from tests.bookie.upkeep.replicas import (
    ME,
    WITHOUT_ME_AT_LAST,
    Mended,
    closed_ledger,
    flip_in,
    gaps,
    hold,
    open_ledger,
    placed,
)

LAST = 99
WHOLE = Shape(3, 3, 2)


async def test_frames_that_cannot_be_read_are_fetched_anew_and_no_longer_pointed_to(
    tmp_path: Path, world: Mended
) -> None:
    """R6: an I/O error before, an answer afterwards, never "no such entry"."""
    record = await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await hold(world.bookie, 7, *[range(n, n + 10) for n in range(0, 100, 10)])
    frames = world.places(7)
    for place in frames[2], frames[3], frames[9]:
        flip_in(tmp_path / "log", place)
    lost = {*range(20, 40), *range(90, 100)}
    given, damaged = await world.read(7, 0, LAST)
    assert (set(given), damaged) == (set(range(100)) - lost, lost)
    for verify in False, True:  # the index is not believed for what could not be read
        assert gaps(record, await world.repair.missing(record, verify=verify)) == sorted(lost)
    done = await world.repair.repair_ledger(7)
    assert (done.entries, done.frames_removed, done.why_not) == (30, 3, "")
    assert await world.read(7, 0, LAST) == (list(range(100)), set())
    assert not {frames[2], frames[3], frames[9]} & set(world.places(7))


@pytest.mark.parametrize("shape", [WHOLE, Shape(3, 2, 2)], ids=str)
async def test_a_frame_stays_damaged_until_each_of_its_entries_stands_elsewhere(
    tmp_path: Path, world: Mended, shape: Shape
) -> None:
    """R6: this ledger is in no limbo, so without the frame its entries would be denied."""
    record = await closed_ledger(world.ledgers, 7, shape, LAST)
    ours = placed(record)
    world.peers.lost = {7: {ours[25]}}
    await hold(world.bookie, 7, ours[:20], ours[20:40], ours[40:])
    whole, half, rest = world.places(7)
    flip_in(tmp_path / "log", whole)
    flip_in(tmp_path / "log", half)
    done = await world.repair.mend(7, [whole, half])
    assert (done.entries, done.frames_removed) == (39, 1)
    assert f"entry {ours[25]} of" in done.why_not
    given, damaged = await world.read(7, 0, LAST)
    assert given == [n for n in ours if n != ours[25]]
    assert damaged == set(range(half.first_entry, half.last_entry + 1))
    world.peers.lost.clear()
    done = await world.repair.mend(7, [half])
    assert (done.entries, done.frames_removed, done.why_not) == (1, 1, "")
    assert await world.read(7, 0, LAST) == (ours, set())
    assert rest in world.places(7)


@pytest.mark.parametrize("away", [False, True], ids=["too many entries fail", "nothing can be asked"])
async def test_frames_that_were_not_come_to_stay_damaged(tmp_path: Path, world: Mended, away: bool) -> None:
    """R6: the ledger was given up for now before it was their turn."""
    world.peers.lost = {7: set(range(30))}
    world.peers.away = away
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await hold(world.bookie, 7, range(30), range(30, 60), range(60, 100))
    for place in world.places(7)[:2]:
        flip_in(tmp_path / "log", place)
    done = await world.repair.mend(7, world.places(7)[:2])
    assert (done.entries, done.frames_removed) == (0, 0)
    assert len(world.peers.asked) == (1 if away else gap_filling.FAILURES_MAX)
    assert await world.read(7, 0, LAST) == (list(range(60, 100)), set(range(60)))


async def test_a_frame_that_cannot_be_read_is_only_removed_where_all_of_it_was_looked_for(
    tmp_path: Path,
    world: Mended,
) -> None:
    """Two frames overlap: mending one says nothing of the other's rest."""
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await hold(world.bookie, 7, range(10), range(5, 30), range(30, 100))
    first, second, _ = world.places(7)
    flip_in(tmp_path / "log", first)
    flip_in(tmp_path / "log", second)
    assert (await world.repair.mend(7, [first])).frames_removed == 1
    given, damaged = await world.read(7, 0, LAST)
    assert damaged == set(range(5, 30))
    assert set(given) == {*range(10), *range(30, 100)}


async def test_a_damaged_frame_of_a_ledger_that_is_written_to_waits_for_its_close(
    tmp_path: Path, world: Mended
) -> None:
    """Its writer is not fenced for one record; unless the entries stand here twice."""
    for ledger_id in (7, 8):
        await open_ledger(world.ledgers, ledger_id, WHOLE)
    await hold(world.bookie, 7, range(10))
    await hold(world.bookie, 8, range(10), range(10))
    for ledger_id in (7, 8):
        flip_in(tmp_path / "log", world.places(ledger_id)[0])
    waits = await world.repair.mend(7, world.places(7)[:1])
    assert "not closed" in waits.why_not
    assert (await world.read(7, 0, 9))[1] == set(range(10))
    again = await world.repair.mend(8, world.places(8)[:1])
    assert (again.frames_removed, again.why_not) == (1, "")
    assert await world.read(8, 0, 9) == (list(range(10)), set())
    assert not world.peers.recovered and not world.peers.asked


async def test_a_suspected_frame_that_can_be_read_is_left_alone(tmp_path: Path, world: Mended) -> None:
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await hold(world.bookie, 7, range(50), range(50, 100))
    whole, bad = world.places(7)
    flip_in(tmp_path / "log", bad)
    done = await world.repair.mend(7, [whole, bad])
    assert (done.frames_unreadable, done.frames_removed, done.entries) == (1, 1, 50)
    assert whole in world.places(7)
    assert await world.repair.mend(7, world.places(7)) == Tally(7)


async def test_a_damaged_frame_of_what_is_placed_elsewhere_is_only_removed(
    tmp_path: Path, world: Mended
) -> None:
    await closed_ledger(world.ledgers, 7, WHOLE, LAST, *WITHOUT_ME_AT_LAST)
    await hold(world.bookie, 7, range(30), range(30, 50), range(50, 60))
    bad = world.places(7)[1:]
    for place in bad:
        flip_in(tmp_path / "log", place)
    done = await world.repair.mend(7, bad)
    assert (done.entries, done.frames_removed, done.why_not) == (10, 2, "")
    assert world.peers.asked == [(7, 30, 39, ME)]
    assert await world.read(7, 0, LAST) == (list(range(40)), set())
