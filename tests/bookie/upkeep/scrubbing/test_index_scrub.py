"""What the index has lost, or points at something else, is put right by what stands in the log (R6)."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from bookie.index.frame_locations import to_row
from bookie.log.format import BookieLogRecord, RecordKind
from bookie.offline import rebuild
from metadata.records.ledger_record import Fragment, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.upkeep.replicas import (
    BK1,
    BK2,
    BK3,
    ME,
    Mended,
    closed_ledger,
    hold,
    mended,
    open_ledger,
    placed,
)
from tests.support.ledgers import change, delete

from .scrubs import LAST, STRIPED, WHOLE, dealt_with, filled


@pytest.mark.parametrize("shape", [WHOLE, STRIPED], ids=str)
async def test_frames_that_the_index_has_lost_are_put_back(
    tmp_path: Path, shape: Shape, ledgers: LedgerStore
) -> None:
    """R6: without them their entries are denied. The index's pages have no checksums."""
    async with mended(tmp_path, ledgers) as world:
        ours = placed((await filled(world, shape, 7, 8))[0])
        lost = world.places(7)[3:6]
        usage = world.bookie.index.usage.totals()
        await world.bookie.drop([(7, place) for place in lost])
        given, damaged = await world.read(7, 0, LAST)
        assert len(given) == len(ours) - 15 and not damaged
        report = await world.scrubber.scrub_once()
        assert dealt_with(report) == {"frames_restored": 3}
        assert await world.read(7, 0, LAST) == (ours, set())
        assert world.bookie.index.usage.totals() == usage
        assert world.peers.asked == []
        assert dealt_with(await world.scrubber.scrub_once()) == {}
    async with mended(tmp_path, ledgers) as world:
        assert await world.read(7, 0, LAST) == (ours, set())


@pytest.mark.parametrize("rot", ["lost", "changed"])
async def test_rows_of_the_index_that_have_rotted_are_found_and_told(
    formatted: Path, rot: str, ledgers: LedgerStore
) -> None:
    """R6: what they pointed to is read again, and a rebuild is asked for."""
    async with mended(formatted, ledgers) as world:
        await filled(world, WHOLE, 7, 8)
        place = world.places(7)[3]
    with lmdb.open(str(formatted / "index"), max_dbs=5) as env:
        places = env.open_db(b"places")
        with env.begin(write=True, db=places) as txn:
            key, _ = to_row(7, place)
            assert txn.delete(key)
            if rot == "changed":
                txn.put(key, to_row(7, place._replace(last_entry=place.last_entry - 1))[1])
    async with mended(formatted, ledgers) as world:
        assert {n for found in await world.read(7, 0, LAST) for n in found} == set(range(LAST + 1))
        report = await world.scrubber.scrub_once()
        assert (report.frames_restored, report.frames_damaged) == (1, 0 if rot == "lost" else 1)
        assert [one.ledger_id for one in report.unrepaired] == [7]
        assert "rebuild-index" in report.unrepaired[0].why
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())
    rebuild.rebuild_index(formatted)
    async with mended(formatted, ledgers) as world:
        assert dealt_with(await world.scrubber.scrub_once()) == {}
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_a_lost_frame_of_a_ledger_that_is_written_to_is_put_back_too(world: Mended) -> None:
    await open_ledger(world.ledgers, 7, WHOLE)
    await hold(world.bookie, 7, range(10), range(10, 20))
    await world.bookie.drop([(7, world.places(7)[0])])
    assert (await world.scrubber.scrub_once()).frames_restored == 1
    assert await world.read(7, 0, 19) == (list(range(20)), set())


async def test_frames_that_were_dropped_on_purpose_stay_dropped(world: Mended) -> None:
    """What the metadata places elsewhere, what stands here twice, and what was deleted."""
    await closed_ledger(world.ledgers, 7, WHOLE, 39, Fragment(0, (BK1, BK2, BK3)))
    await hold(world.bookie, 7, range(10))
    await closed_ledger(world.ledgers, 8, WHOLE, 39)
    await hold(world.bookie, 8, range(40), range(10, 20))
    await closed_ledger(world.ledgers, 9, WHOLE, 39)
    await hold(world.bookie, 9, range(20), range(20, 40))
    await world.bookie.drop([(7, world.places(7)[0]), (8, world.places(8)[1])])
    await delete(world.ledgers, 9)
    await world.bookie.drop([(9, world.places(9)[0])])
    before = [world.places(n) for n in (7, 8, 9)]
    assert dealt_with(await world.scrubber.scrub_once()) == {}
    await world.bookie.forget([9])
    assert dealt_with(await world.scrubber.scrub_once()) == {}
    assert [world.places(n) for n in (7, 8)] == before[:2]


async def test_a_striped_frame_is_put_back_although_anothers_span_covers_it(world: Mended) -> None:
    """A frame with holes vouches for no entry between."""
    record = await closed_ledger(world.ledgers, 7, STRIPED, LAST)
    ours = placed(record)
    outer = [*ours[::2], ours[-1]]
    await hold(world.bookie, 7, outer, ours[1:-1:2])
    await world.bookie.drop([(7, world.places(7)[1])])
    assert (await world.read(7, 0, LAST))[0] == outer
    assert (await world.scrubber.scrub_once()).frames_restored == 1
    assert await world.read(7, 0, LAST) == (ours, set())


async def test_whose_a_lost_frame_is_is_asked_at_each_pass_anew(world: Mended) -> None:
    """The bookie took over places meanwhile."""
    await closed_ledger(world.ledgers, 7, WHOLE, 9, Fragment(0, (BK1, BK2, BK3)))
    await hold(world.bookie, 7, range(10))
    await world.bookie.drop([(7, world.places(7)[0])])
    assert (await world.scrubber.scrub_once()).frames_restored == 0
    await change(world.ledgers, 7, lambda it: it.moved(0, BK2, ME))
    assert (await world.scrubber.scrub_once()).frames_restored == 1


async def test_a_lost_frame_is_not_put_back_where_it_can_no_longer_be_read(world: Mended) -> None:
    """Its segment was deleted while the lock was waited for."""
    await filled(world, WHOLE, 7)
    place = world.places(7)[3]
    await world.bookie.drop([(7, place)])
    gone = place._replace(position=place.position + 8)
    assert await world.repair.restorer.put_back(7, [gone, place]) == 1
    assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


@pytest.mark.parametrize(
    "points_to", ["another ledger's", "another frame", "nothing", "lost bytes", "no segment"]
)
async def test_places_that_point_at_something_else_are_mended(world: Mended, points_to: str) -> None:
    await filled(world, WHOLE, 7, 8)
    await world.bookie.store([BookieLogRecord(RecordKind.LOST, -1, content=bytes(90))])
    await world.bookie.checkpoint()
    true, other = world.places(7)[2:4]
    lost = world.bookie.index.checkpoint_position - 176
    position = {
        "another ledger's": world.places(8)[2].position,
        "another frame": other.position,
        "nothing": true.position + 8,
        "lost bytes": lost,
        "no segment": 99 << 32 | 64,
    }[points_to]
    wrong = true._replace(position=position)
    world.bookie.index.remove(7, true)
    world.bookie.index.add(7, wrong)
    await world.bookie.checkpoint()
    report = await world.scrubber.scrub_once()
    assert report.frames_damaged == 1
    assert report.frames_restored == 1 or report.entries_repaired == 5
    assert wrong not in world.places(7)
    assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())
    assert dealt_with(await world.scrubber.scrub_once()) == {}
