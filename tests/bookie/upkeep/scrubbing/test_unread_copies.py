"""A copy that its bookie could not read is not whole by the ledger's record, until it can be read again (R6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bookie.log import segment_files
from bookie.log.format import place_of
from bookie.upkeep.healing.replication_worker import RETRY_SECONDS_MIN
from metadata.records.fragment import Lacking
from metadata.records.ledger_record import Fragment, Shape
from tests.bookie.bookies import append
from tests.bookie.entries import frame_of
from tests.bookie.upkeep.healing.site import Healing, healing
from tests.bookie.upkeep.replicas import ME, closed_ledger, flip_in

LAST = 59


@pytest.fixture
async def only_copy(tmp_path: Path) -> AsyncIterator[Healing]:
    """Ledger 7 has all its entries here, in several segments, and nowhere else."""
    async with healing(tmp_path) as one:
        await closed_ledger(one.ledgers, 7, Shape(1, 1, 1), LAST, Fragment(0, (ME,)))
        for start in range(0, LAST + 1, 5):
            await append(one.world.bookie, frame_of(7, range(start, start + 5)))
        await one.world.bookie.checkpoint()
        one.world.bookie.files.close()
        one.peers.lost[7] = set(range(LAST + 1))
        yield one


async def lacking(one: Healing) -> tuple[Lacking, ...]:
    return (await one.record(7)).fragments[0].lacking


def entries_in(one: Healing, segment: int) -> tuple[int, int]:
    places = [place for place in one.world.places(7) if place_of(place.position)[0] == segment]
    return places[0].first_entry, places[-1].last_entry


async def test_a_segment_that_cannot_be_opened_makes_its_copies_not_whole_until_it_can(
    tmp_path: Path, only_copy: Healing
) -> None:
    one = only_copy
    (path,) = tmp_path.rglob(segment_files.name_of(1))
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(path)  # whose opening fails for root, too
    report = await one.world.scrubber.scrub_once()
    assert (len(report.unread), report.damaged) == (1, 0)
    unread = (Lacking(0, *entries_in(one, 1)),)
    assert await lacking(one) == unread
    await one.worker.look_once()  # which takes no word of the index for it
    assert await lacking(one) == unread
    moved.rename(path)
    one.passes(RETRY_SECONDS_MIN)
    await one.worker.look_once()
    assert await lacking(one) == () and await one.marks.read(7) is None
    assert await one.world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_damage_that_no_other_bookie_repairs_makes_a_copy_not_whole(
    tmp_path: Path, only_copy: Healing
) -> None:
    place = only_copy.world.places(7)[4]
    flip_in(tmp_path / "log", place)
    assert (await only_copy.world.scrubber.scrub_once()).ledgers_unrepaired == 1
    assert await lacking(only_copy) == (Lacking(0, place.first_entry, place.last_entry),)


async def test_a_segment_that_is_opened_when_it_is_read_again_leaves_its_copies_whole(
    tmp_path: Path, only_copy: Healing
) -> None:
    (path,) = tmp_path.rglob(segment_files.name_of(1))
    await only_copy.world.read(7, 0, LAST)  # its files are open from now on
    moved = path.rename(tmp_path / "moved")
    path.symlink_to(path)
    assert len((await only_copy.world.scrubber.scrub_once()).unread) == 1
    assert await lacking(only_copy) == ()
    moved.rename(path)
