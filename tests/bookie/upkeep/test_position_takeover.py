"""H1: a bookie takes a lost one's places by one compare-and-swap, and only with every entry of them on its disk.

That no copy is dropped before another one counts: test_collector.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from metadata import settled_writes
from metadata.errors import StoreUnavailable, VersionConflict
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.record_decoding import OnUnreadable, skip
from metadata.version import Version
from tests.bookie.upkeep.replicas import (
    BK1,
    BK2,
    BK3,
    BK4,
    ME,
    SHAPES,
    Mended,
    closed_ledger,
    hold,
    mended,
    open_ledger,
    placed,
)
from tests.support.ledgers import change
from tests.support.present import there

LAST = 99
WHOLE = Shape(3, 3, 2)
FORMER = replace(ME, incarnation="before")
LOST = BookieRef("lost", "i")
SPARE = BookieRef("spare", "i")


class Watched(LedgerStore):
    """Looks at each change just before it is made."""

    before_change: Callable[[LedgerRecord], Awaitable[None]] | None = None
    changes = 0

    async def change(
        self, record: LedgerRecord, version: Version, *, unless_held: bool = False
    ) -> VersionedRecord:
        if self.before_change is not None:
            self.changes += 1
            await self.before_change(record)
        return await super().change(record, version, unless_held=unless_held)


@pytest.fixture
def ledgers() -> Watched:
    return Watched(MemoryStore())


async def named(ledgers: LedgerStore, ledger_id: int) -> LedgerRecord:
    found = there(await ledgers.read(ledger_id))
    return found.record


def all_here_before_each_change(world: Mended, ledgers: Watched) -> None:
    async def check(record: LedgerRecord) -> None:
        assert await world.repair.missing(record, verify=True) == []

    ledgers.before_change = check


@pytest.mark.parametrize("old", [FORMER, LOST], ids=["of its former self", "of another"])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.ensemble_size > 1], ids=str)
async def test_H1_a_bookie_takes_the_places_of_a_lost_one(
    world: Mended, ledgers: Watched, shape: Shape, old: BookieRef
) -> None:
    """W3, W7: every entry is on its disk before the metadata names it, by one change of each record."""
    others = (BK1, BK2, BK3, BK4)
    with_old = (old, *others[: shape.ensemble_size - 1])
    fragments = (
        Fragment(0, with_old),
        Fragment(30, (*others, SPARE)[: shape.ensemble_size]),
        Fragment(60, with_old[::-1]),
    )
    before = [await closed_ledger(ledgers, n, shape, LAST, *fragments) for n in range(3)]
    untouched = await closed_ledger(ledgers, 9, shape, LAST, replace(fragments[1], first_entry=0))
    await hold(world.bookie, 1, placed(before[1], old)[5:20])
    all_here_before_each_change(world, ledgers)
    report = await world.repair.adopt(old.bookie_id, living=None)
    assert (report.ledgers, report.ledgers_unrepaired, report.fragments_moved) == (3, 0, 6)
    assert report.entries == sum(len(placed(record, old)) for record in before) - 15
    assert ledgers.changes == 3
    for record in before:
        now = await named(ledgers, record.ledger_id)
        moved = record.moved(0, old, ME).moved(60, old, ME)
        assert replace(now, nonce=b"") == replace(moved, nonce=b"")
        assert await world.read(record.ledger_id, 0, LAST) == (placed(record, old), set())
    assert await named(ledgers, 9) == untouched
    assert {without for *_, without in world.peers.asked} == {old}
    assert (await world.repair.adopt(old.bookie_id, living=None)).ledgers == 0


async def test_H1_several_former_selves_are_replaced_by_one_change(world: Mended, ledgers: Watched) -> None:
    first, second = replace(ME, incarnation="1"), replace(ME, incarnation="2")
    fragments = Fragment(0, (first, BK1, BK2)), Fragment(50, (BK1, second, BK2)), Fragment(80, (BK1, BK2, ME))
    record = await closed_ledger(ledgers, 7, WHOLE, LAST, *fragments)
    await hold(world.bookie, 7, range(80, 100))
    all_here_before_each_change(world, ledgers)
    report = await world.repair.adopt("b0", living=ME.incarnation)
    assert (report.entries, report.fragments_moved, ledgers.changes) == (80, 2, 1)
    now = await named(ledgers, 7)
    assert [f.ensemble.index(ME) for f in now.fragments] == [0, 1, 2]
    assert await world.read(7, 0, LAST) == (list(range(100)), set())
    assert now.length_bytes == record.length_bytes


async def test_a_living_bookies_places_stay_its_own(world: Mended) -> None:
    """W7: those of its former selves do not."""
    alive = replace(LOST, incarnation="alive")
    await closed_ledger(
        world.ledgers, 7, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)), Fragment(50, (alive, BK1, BK2))
    )
    await closed_ledger(world.ledgers, 8, WHOLE, LAST, Fragment(0, (alive, BK1, BK2)))
    report = await world.repair.adopt("lost", living="alive")
    assert (report.ledgers, report.entries) == (1, 50)
    assert [f.ensemble[0] for f in (await named(world.ledgers, 7)).fragments] == [ME, alive]
    assert (await named(world.ledgers, 8)).fragments[0].ensemble[0] == alive


async def test_a_place_in_an_ensemble_that_names_the_bookie_already_is_left_and_told(world: Mended) -> None:
    """Also where it is a former self that stands there: no name stands twice in an ensemble."""
    fragments = (
        Fragment(0, (LOST, BK1, BK2)),
        Fragment(20, (LOST, ME, BK2)),
        Fragment(40, (LOST, FORMER, BK2)),
        Fragment(60, (LOST, BK1, BK2)),
    )
    await closed_ledger(world.ledgers, 7, WHOLE, LAST, *fragments)
    await closed_ledger(world.ledgers, 8, WHOLE, LAST, Fragment(0, (LOST, ME, BK2)))
    report = await world.repair.adopt("lost", living=None)
    assert (report.fragments_moved, report.entries, report.ledgers_unrepaired) == (2, 60, 2)
    assert "from entry 20, 40 on" in report.unrepaired[0].why
    assert "from entry 0 on" in report.unrepaired[1].why
    now = await named(world.ledgers, 7)
    assert [f.ensemble[0] for f in now.fragments] == [ME, LOST, LOST, ME]
    assert world.peers.asked == [(7, 0, 19, LOST), (7, 60, 99, LOST)]


async def test_H1_what_no_other_replica_has_leaves_the_record_as_it_was(world: Mended) -> None:
    world.peers.lost = {7: {42}}
    before = await closed_ledger(world.ledgers, 7, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)))
    await closed_ledger(world.ledgers, 8, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)))
    report = await world.repair.adopt("lost", living=None)
    assert [one.ledger_id for one in report.unrepaired] == [7]
    assert "entry 42 of" in report.unrepaired[0].why
    assert await named(world.ledgers, 7) == before
    assert ME in (await named(world.ledgers, 8)).fragments[0].ensemble
    world.peers.lost.clear()
    world.peers.asked.clear()
    report = await world.repair.adopt("lost", living=None)
    assert (report.entries, world.peers.asked) == (1, [(7, 42, 42, LOST)])


async def test_a_record_that_somebody_else_changes_is_decided_anew(world: Mended, ledgers: Watched) -> None:
    """Here another spare takes one of the places first."""
    fragments = Fragment(0, (LOST, BK1, BK2)), Fragment(50, (BK1, LOST, BK2))
    before = await closed_ledger(ledgers, 7, WHOLE, LAST, *fragments)

    async def comes_first(_: LedgerRecord) -> None:
        if ledgers.changes == 1:
            found = there(await ledgers.read(7))
            taken = replace(before, fragments=(Fragment(0, (SPARE, BK1, BK2)), fragments[1]))
            await ledgers.change(taken, found.version)

    ledgers.before_change = comes_first
    report = await world.repair.adopt("lost", living=None)
    assert (report.fragments_moved, report.ledgers_unrepaired) == (1, 0)
    now = await named(ledgers, 7)
    assert [f.ensemble for f in now.fragments] == [(SPARE, BK1, BK2), (BK1, ME, BK2)]
    assert (await world.read(7, 50, LAST))[0] == list(range(50, 100))


async def test_a_record_that_changes_all_the_time_is_left(
    world: Mended, ledgers: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_writes, "CONFLICTS_MAX", 5)
    await closed_ledger(ledgers, 7, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)))

    async def always(_: LedgerRecord) -> None:
        raise VersionConflict("ledgers/7", 1)

    ledgers.before_change = always
    report = await world.repair.adopt("lost", living=None)
    assert "ledger 7 keeps changing" in report.unrepaired[0].why
    assert ledgers.changes == 5
    assert report.entries == 100  # fetched once


async def test_a_ledger_that_is_deleted_meanwhile_is_done_with(world: Mended, ledgers: Watched) -> None:
    await closed_ledger(ledgers, 7, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)))

    async def deleted(_: LedgerRecord) -> None:
        found = await ledgers.read(7)
        if found is not None:
            await ledgers.delete(found)

    ledgers.before_change = deleted
    report = await world.repair.adopt("lost", living=None)
    assert (report.ledgers, report.ledgers_unrepaired, report.fragments_moved) == (1, 0, 0)
    assert await ledgers.tombstone(7) is not None


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
@pytest.mark.parametrize("in_use", [True, False], ids=["in the last ensemble", "in an earlier one"])
async def test_a_ledger_is_closed_first_unless_its_writer_goes_on_without_the_lost_bookie(
    world: Mended, state: LedgerState, in_use: bool
) -> None:
    world.peers.ends = {7: 79}
    last = (BK3, BK1, LOST) if in_use else (BK3, BK1, BK2)
    await open_ledger(world.ledgers, 7, WHOLE, Fragment(0, (LOST, BK1, BK2)), Fragment(40, last))
    if state is LedgerState.IN_RECOVERY:
        await change(world.ledgers, 7, lambda it: it.in_recovery())
    report = await world.repair.adopt("lost", living=None)
    writes_on = state is LedgerState.OPEN and not in_use
    assert (report.ledgers_unrepaired, world.peers.recovered) == (0, [] if writes_on else [7])
    assert report.entries == (80 if in_use else 40)
    now = await named(world.ledgers, 7)
    assert now.is_closed != writes_on
    assert LOST not in {b for f in now.fragments for b in f.ensemble}


async def test_an_empty_ledgers_place_is_taken_without_asking_anybody(world: Mended) -> None:
    await closed_ledger(world.ledgers, 7, WHOLE, -1, Fragment(0, (LOST, BK1, BK2)))
    assert (await world.repair.adopt("lost", living=None)).fragments_moved == 1
    assert world.peers.asked == []


async def test_a_listing_that_fails_changes_nothing(tmp_path: Path) -> None:
    class Away(LedgerStore):
        async def list(
            self, first_ledger: int = 0, *, on_unreadable: OnUnreadable = skip
        ) -> AsyncIterator[VersionedRecord]:
            async for one in super().list(first_ledger, on_unreadable=on_unreadable):
                yield one
                raise StoreUnavailable("the store went away")

    ledgers = Away(MemoryStore())
    before = await closed_ledger(ledgers, 7, WHOLE, LAST, Fragment(0, (LOST, BK1, BK2)))
    async with mended(tmp_path, ledgers) as world:
        with pytest.raises(StoreUnavailable):
            await world.repair.adopt("lost", living=None)
        assert world.peers.asked == []
        assert await named(ledgers, 7) == before
