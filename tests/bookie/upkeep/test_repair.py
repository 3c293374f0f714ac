"""A bookie that may have lost something vouches for a ledger again when all of it that is placed here is here (R6)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from random import Random

import pytest

from bookie.index.frame_locations import FrameLocation
from bookie.log.format import RecordKind
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookie.upkeep.inventory import inventory
from bookie.upkeep.mending import gap_filling
from bookie.upkeep.reports import Tally, Unrepaired
from bookie.wire.columnar_entries import FRAME_BYTES_MAX
from bookie.wire.messages import EntryRange, Frame, LacRequest, Status
from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import append, bookie_on
from tests.bookie.entries import columns_of, entry_of
from tests.bookie.logs import INCARNATION
from tests.bookie.upkeep.replicas import (
    BK1,
    BK2,
    BK3,
    BK4,
    BK5,
    ME,
    SHAPES,
    WITHOUT_ME_AT_LAST,
    DictionaryPeers,
    Mended,
    closed_ledger,
    ensemble_of,
    flip_in,
    gaps,
    hold,
    mended,
    open_ledger,
    placed,
    tools,
)
from tests.support.faulty_store import FaultyStore
from tests.support.ledgers import change, delete
from tests.support.present import there

LAST = 99
WHOLE = Shape(3, 3, 2)


def some_frames(record: LedgerRecord, random: Random, count_max: int = 8) -> list[list[int]]:
    """Frames of some of what is placed here, and of some that is not; overlapping, as recoveries make them."""
    frames = []
    for _ in range(random.randrange(count_max)):
        first = random.randrange(LAST)
        ids = range(first, min(LAST, first + random.choice([0, 3, 30])) + 1)
        here = set(placed(record)) if random.random() < 0.8 else set(ids)
        frames.append([n for n in ids if n in here and random.random() < random.choice([0.5, 1])])
    return [ids for ids in frames if ids]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
async def test_what_is_missing_is_what_is_placed_here_and_not_held(
    world: Mended, shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the windows, the frames, and the ensembles of the fragments are."""
    monkeypatch.setattr(inventory, "WINDOW_ENTRIES", 16)
    monkeypatch.setattr(inventory, "FRAMES_PER_WINDOW", 3)
    random = Random(shape.ensemble_size)
    for ledger_id in range(12):
        last = shape.ensemble_size - 1
        others = (BK1, BK2, BK3, BK4, BK5)[: last + 1]
        fragments = (
            Fragment(0, ensemble_of(shape, random.randint(0, last))),
            Fragment(random.randint(1, 40), others),
            Fragment(random.randint(41, 80), ensemble_of(shape, random.randint(0, last))),
        )
        record = await closed_ledger(world.ledgers, ledger_id, shape, LAST, *fragments)
        frames = some_frames(record, random, count_max=60)
        await hold(world.bookie, ledger_id, *frames)
        lacking = [n for n in placed(record) if not any(n in ids for ids in frames)]
        for verify in (False, True):
            found = await world.repair.missing(record, verify=verify)
            assert gaps(record, found) == lacking
        within = EntryRange(20, 70)
        some = await world.repair.missing(record, within=within)
        assert gaps(record, some) == [n for n in lacking if 20 <= n <= 70]


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.ensemble_size > 1], ids=str)
async def test_a_ledger_leaves_limbo_when_all_that_is_placed_here_is_here(
    world: Mended, shape: Shape
) -> None:
    random = Random(shape.ensemble_size)
    records = []
    for ledger_id in range(8):
        position = random.randrange(shape.ensemble_size)
        fragments = Fragment(0, ensemble_of(shape, position)), Fragment(50, ensemble_of(shape))
        records.append(await closed_ledger(world.ledgers, ledger_id, shape, LAST, *fragments))
        await hold(world.bookie, ledger_id, *some_frames(records[-1], random))
    await world.limbo()
    before = {n: set((await world.read(n, 0, LAST))[0]) for n in range(8)}
    report = await world.repair.repair_limbo()
    assert (report.ledgers, report.ledgers_unrepaired) == (8, 0)
    assert report.entries == sum(len(set(placed(record)) - before[record.ledger_id]) for record in records)
    for record in records:
        assert not world.is_in_limbo(record.ledger_id)
        given, damaged = await world.read(record.ledger_id, 0, LAST)
        assert set(given) == set(placed(record)) | before[record.ledger_id]
        assert not damaged
        assert await world.repair.missing(record, verify=True) == []
    assert {without for *_, without in world.peers.asked} == {ME}
    assert (await world.repair.repair_limbo()).ledgers == 0


async def test_it_stays_out_of_limbo_after_a_restart(tmp_path: Path, ledgers: LedgerStore) -> None:
    """R6: the state is in the log before "no such entry" is said."""
    record = await closed_ledger(ledgers, 7, Shape(3, 2, 2), LAST)
    async with mended(tmp_path, ledgers) as world:
        await world.limbo()
        assert (await world.read(7, 0, 9))[1] == set(range(10))
        await world.repair.repair_limbo()
    for file in (tmp_path / "index").iterdir():
        file.unlink()
    async with mended(tmp_path, ledgers) as world:  # from the log alone
        assert await world.read(7, 0, LAST) == (placed(record), set())


async def test_while_something_is_missing_nothing_is_denied(world: Mended) -> None:
    """R6: what others have is copied, what nobody has stays unknown, and the report names it."""
    world.peers.lost = {7: {3, 50}}
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await closed_ledger(world.ledgers, 8, WHOLE, LAST)
    await world.limbo()
    report = await world.repair.repair_limbo()
    assert (report.ledgers, report.ledgers_unrepaired, report.entries) == (2, 1, 198)
    (unrepaired,) = report.unrepaired
    assert unrepaired.ledger_id == 7
    assert "no other replica gave entry 3 of ledger 7" in unrepaired.why
    assert world.peers.why in unrepaired.why
    assert world.is_in_limbo(7)
    assert not world.is_in_limbo(8)
    given, damaged = await world.read(7, 0, LAST)
    assert given == [n for n in range(LAST + 1) if n not in (3, 50)]
    assert damaged >= {3, 50}
    world.peers.lost.clear()  # a bookie came back
    report = await world.repair.repair_limbo()
    assert (report.ledgers, report.entries, report.ledgers_unrepaired) == (1, 2, 0)
    assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_a_ledger_of_which_entry_after_entry_fails_is_left_for_another_time(world: Mended) -> None:
    """The bookies that hold it may all be down, and each of them is waited for."""
    world.peers.lost = {7: set(range(10, LAST))}
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await world.limbo()
    done = await world.repair.repair_ledger(7)
    assert done.entries == 10
    assert len(world.peers.asked) == gap_filling.FAILURES_MAX
    assert world.is_in_limbo(7)


async def test_an_entry_of_others_that_is_lost_keeps_no_striped_ledger_in_limbo(world: Mended) -> None:
    record = await closed_ledger(world.ledgers, 7, Shape(3, 2, 2), LAST)
    elsewhere = sorted(set(range(LAST + 1)) - set(placed(record)))
    world.peers.lost = {7: {elsewhere[0], elsewhere[9]}}
    await world.limbo()
    assert (await world.repair.repair_ledger(7)).why_not == ""
    assert await world.read(7, 0, LAST) == (placed(record), set())


@pytest.mark.parametrize("verifier", [b"", bytes(range(32))], ids=["without a password", "with one"])
async def test_a_ledger_that_is_not_closed_is_recovered_first(world: Mended, verifier: bytes) -> None:
    """R6: one with a password waits for its owner, and the report says so."""
    world.peers.ends = {7: 30}
    await open_ledger(world.ledgers, 7, WHOLE, verifier=verifier)
    await world.limbo()
    done = await world.repair.repair_ledger(7)
    found = there(await world.ledgers.read(7))
    if verifier:
        assert "password" in done.why_not and "owner" in done.why_not
        assert world.is_in_limbo(7)
        assert not found.record.is_closed
    else:
        assert (done.entries, done.why_not) == (31, "")
        assert world.peers.recovered == [7]
        assert found.record.last_entry == 30
        assert await world.read(7, 0, LAST) == (list(range(31)), set())


async def test_a_closed_ledger_stays_fenced_where_its_fence_may_be_lost(world: Mended) -> None:
    """R1: its old writer, whom another bookie does not know as fenced, would find an ack quorum behind the end."""
    await closed_ledger(world.ledgers, 7, WHOLE, 9)
    await world.limbo()
    for _ in range(2):
        late = Frame(7, columns_of([entry_of(7, 10, 20)]))
        assert await append(world.bookie, late) == [Status.FENCED]
        await world.repair.repair_limbo()
    assert not world.is_in_limbo(7)


async def test_a_writer_that_goes_on_without_this_bookie_is_not_fenced_for_its_sake(
    world: Mended,
) -> None:
    """R6: what stands in earlier fragments is made complete all the same: nobody writes there any more."""
    for ledger_id in (7, 8):
        await open_ledger(
            world.ledgers, ledger_id, WHOLE, Fragment(0, (ME, BK1, BK2)), Fragment(40, (BK1, BK2, BK3))
        )
    await hold(world.bookie, 8, range(40))
    await world.limbo()
    report = await world.repair.repair_limbo()
    assert world.peers.recovered == []
    assert report.unrepaired == () and world.peers.asked == [(7, 0, 39, ME)]
    assert not world.is_in_limbo(7)
    assert not world.is_in_limbo(8)


async def test_a_recovery_that_somebody_began_is_brought_to_its_end(world: Mended) -> None:
    """R6: its writer is fenced already, so nobody is hurt; and in earlier fragments it may be complete only then."""
    world.peers.ends = {7: 60}
    await open_ledger(world.ledgers, 7, WHOLE, *WITHOUT_ME_AT_LAST)
    await change(world.ledgers, 7, lambda it: it.in_recovery())
    await world.limbo()
    assert (await world.repair.repair_ledger(7)).entries == 40
    assert world.peers.recovered == [7]
    assert not world.is_in_limbo(7)


async def test_a_deleted_ledger_leaves_limbo_and_one_the_metadata_never_knew_does_not(
    tmp_path: Path,
) -> None:
    """R6, B3: an id that is not there is no evidence; the store may be the wrong one."""
    ledgers, elsewhere = LedgerStore(MemoryStore()), LedgerStore(MemoryStore())
    for store in (ledgers, elsewhere):
        await closed_ledger(store, 7, WHOLE, LAST)
    async with mended(tmp_path, ledgers) as world:
        await world.limbo()
        stranger = tools(world.bookie, LedgerStore(MemoryStore()), world.peers)
        assert "does not contain this ledger" in (await stranger.repair.repair_ledger(7)).why_not
        assert world.is_in_limbo(7)
        await delete(ledgers, 7)
        assert await world.repair.repair_ledger(7) == Tally(7)
        assert not world.is_in_limbo(7)
        assert world.peers.asked == []


async def test_what_keeps_one_ledger_from_being_repaired_stops_no_other(tmp_path: Path) -> None:
    store = FaultyStore()
    async with mended(tmp_path, LedgerStore(store)) as world:
        for ledger_id in range(5):
            await closed_ledger(world.ledgers, ledger_id, WHOLE, 9)
        await world.limbo()
        for ledger_id in (0, 3):
            store.fail(StoreUnavailable("the store is away"), calls=["get"], keys=keys.ledger(ledger_id))
        report = await world.repair.repair_limbo()
        assert report.unrepaired == tuple(Unrepaired(n, "the store is away") for n in (0, 3))
        assert report.entries == 30
        assert [world.is_in_limbo(n) for n in range(5)] == [True, False, False, True, False]


async def test_what_a_recovery_wrote_here_is_not_given_up_before_it_is_placed_here(
    tmp_path: Path, world: Mended
) -> None:
    """R4: the changes of ensemble that a recovery makes stand in the metadata only when it has closed the ledger."""
    record = await open_ledger(world.ledgers, 7, WHOLE, Fragment(0, (BK1, BK2, BK3)))
    found = there(await world.ledgers.read(7))
    recovering = await world.ledgers.change(record.in_recovery(), found.version)
    await hold(world.bookie, 7, range(10))
    flip_in(tmp_path / "log", world.places(7)[0])
    assert (await world.repair.mend(7, world.places(7))).frames_removed == 0
    assert await world.read(7, 0, 9) == ([], set(range(10)))
    closed = recovering.record.changed_ensemble(Fragment(0, (BK1, ME, BK3))).closed(9, 200)
    await world.ledgers.change(closed, recovering.version)
    assert (await world.repair.mend(7, world.places(7))).entries == 10
    assert await world.read(7, 0, 9) == (list(range(10)), set())


async def test_a_frame_that_claims_to_be_endless_is_not_looked_for_without_end(world: Mended) -> None:
    """The index has no checksums: a place of an open ledger may say anything."""
    await open_ledger(world.ledgers, 7, WHOLE)
    await hold(world.bookie, 7, range(10))
    (place,) = world.places(7)
    done = await world.repair.mend(7, [place._replace(last_entry=2**62)])
    assert (done.entries, done.frames_removed) == (0, 0)
    assert await world.read(7, 0, 9) == (list(range(10)), set())


async def test_copies_reach_the_log_in_frames_and_batches_of_bounded_size(
    world: Mended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gap_filling, "STORE_BYTES", FRAME_BYTES_MAX)
    world.peers.payload_bytes = 100_000
    world.peers.page_entries = 150
    await closed_ledger(world.ledgers, 7, WHOLE, 149)
    syncs = world.bookie.syncs
    done = await world.repair.repair_ledger(7)
    assert done.entries == 150
    assert done.bytes == world.repair.progress.bytes > 15_000_000
    assert all(place.size <= FRAME_BYTES_MAX + 4096 for place in places_of_recent(world, 7))
    assert world.bookie.syncs - syncs >= done.bytes // (2 * FRAME_BYTES_MAX)
    assert await world.read(7, 0, 149) == (list(range(150)), set())


def places_of_recent(world: Mended, ledger_id: int) -> list[FrameLocation]:
    return world.bookie.index.recent_holding(ledger_id, 0, 1 << 40)


async def test_copies_bear_no_last_add_confirmed_and_the_ledgers_own_verifier(world: Mended) -> None:
    verifier = bytes(range(32))
    await open_ledger(world.ledgers, 7, WHOLE, verifier=verifier)
    await change(world.ledgers, 7, lambda it: it.closed(LAST, 0))
    assert (await world.repair.repair_ledger(7)).entries == 100
    records = [one.record for one in walk(world.bookie.disk, 0) if isinstance(one, Found)]
    assert {one.kind for one in records} == {RecordKind.ENTRIES}
    assert {one.verifier for one in records} == {verifier}
    assert {one.last_add_confirmed for one in records} == {None}
    assert {one.recovery for one in records} == {False}
    assert world.bookie.metrics.counters.entries_added == 0


async def test_a_bookie_that_is_nearly_full_fetches_nothing(world: Mended) -> None:
    """B4: what is left of the disk is for fences and recoveries."""
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await world.limbo()
    world.bookie.space.why_read_only = "the disk is nearly full"
    done = await world.repair.repair_ledger(7)
    assert (done.entries, done.why_not) == (0, "the disk is nearly full")
    assert world.is_in_limbo(7)
    world.bookie.space.why_read_only = ""
    assert (await world.repair.repair_ledger(7)).why_not == ""


async def test_repair_keeps_to_its_pace_and_tells_how_far_it_is(tmp_path: Path, ledgers: LedgerStore) -> None:
    loop = asyncio.get_running_loop()
    peers = DictionaryPeers(ledgers, payload_bytes=10_000, page_entries=5)
    for ledger_id in range(3):
        await closed_ledger(ledgers, ledger_id, WHOLE, 9)
    async with mended(tmp_path, ledgers, peers=peers, pace=RateLimit(500_000)) as world:
        await world.limbo()
        began, seen = loop.time(), []
        repairing = asyncio.create_task(world.repair.repair_limbo())
        while not repairing.done():
            seen.append((world.repair.progress.ledgers_done, world.repair.progress.entries))
            await asyncio.wait([repairing], timeout=0.02)
        took_seconds = loop.time() - began
        assert repairing.result().entries == 30
        assert took_seconds > (300_000 - 125_000) / 500_000 * 0.9  # a quarter of a second comes at once
        assert world.repair.progress.ledgers == world.repair.progress.ledgers_done == 3
        assert len(set(seen)) > 3
        assert seen == sorted(seen)


async def test_what_is_not_repaired_is_said_once_with_its_reason(
    world: Mended, caplog: pytest.LogCaptureFixture
) -> None:
    world.peers.lost = {7: set(range(100))}
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await world.limbo()
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        await world.repair.repair_limbo()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("ledger 7 was not repaired: no other replica gave entry 0 of ledger 7")


async def test_a_repair_that_is_cancelled_leaves_nothing_behind_and_is_taken_up_again(
    tmp_path: Path, ledgers: LedgerStore
) -> None:
    record = await closed_ledger(ledgers, 7, WHOLE, LAST)
    peers = DictionaryPeers(ledgers, payload_bytes=5000, page_entries=5)
    async with mended(tmp_path, ledgers, peers=peers, pace=RateLimit(200_000)) as world:
        await world.limbo()
        repairing = asyncio.create_task(world.repair.repair_limbo())
        while world.repair.progress.entries < 20:
            await asyncio.wait([repairing], timeout=0.01)
        repairing.cancel()
        await asyncio.wait([repairing])
        assert world.is_in_limbo(7)
    async with bookie_on(tmp_path) as bookie:
        again = tools(bookie, ledgers, peers)
        assert again.is_in_limbo(7)
        done = await again.repair.repair_ledger(7)
        assert 0 < done.entries <= 80
        assert await again.read(7, 0, LAST) == (placed(record), set())


async def test_the_last_add_confirmed_is_unknown_in_limbo_and_told_afterwards(world: Mended) -> None:
    await closed_ledger(world.ledgers, 7, WHOLE, LAST)
    await world.limbo()
    request = LacRequest(INCARNATION, 7)
    assert (await world.bookie.last_add_confirmed(request)).status is Status.UNKNOWN
    await world.repair.repair_limbo()
    assert (await world.bookie.last_add_confirmed(request)).status is Status.OK
