"""The worker, the auditor and the stock-taker of one bookie, over real storage and a store in memory."""

from __future__ import annotations

import asyncio

import pytest

from bookie.upkeep.healing import auditor
from bookie.upkeep.healing.auditor import NO_TAKER, NOT_CLOSED, Auditor
from bookie.upkeep.healing.cluster_view import look
from bookie.upkeep.healing.replication_worker import OVERDUE_SECONDS, RETRY_SECONDS_MIN
from metadata import keys
from metadata.backup import hold as restored
from metadata.errors import StoreUnavailable
from metadata.healing import absent_bookies, lease_lock, operator_requests
from metadata.healing.lease_lock import LeaseLock
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote
from metadata.records.registration import Registration
from tests.bookie.upkeep.healing.site import CONFIG, LAST, LOST_MS, NOW, SHAPE, Healing
from tests.bookie.upkeep.replicas import BK1, BK2, BK3, ME, closed_ledger, hold, open_ledger
from tests.support.aio import cancel, until_true
from tests.support.faulty_store import FaultyStore
from tests.support.ledgers import change
from tests.support.present import there

TEST_SECONDS_MAX = 2 * CONFIG.lost_bookie_seconds + 120
"""By the clock of its event loop, which a test may set forward."""


async def test_the_worker_takes_the_place_of_a_lost_bookie_with_every_entry(one: Healing) -> None:
    """W3: and the mark goes when nothing is amiss any more."""
    await one.loses_b2()
    assert there(await one.marks.read(7)).reasons == ("entries 0 to 99: b2 is lost",)
    audit = one.auditor.last
    assert (audit.to_heal, dict(audit.ledgers)) == (1, {LedgerState.CLOSED: 1})
    await one.worker.look_once()
    assert one.worker.marked == 1
    assert await one.ensemble(7) == (BK1, ME, BK3)
    assert await one.world.read(7, 0, LAST) == (list(range(100)), set())
    assert await one.marks.read(7) is None
    assert await lease_lock.read(one.store, keys.healing(7)) is None
    await one.worker.look_once()
    assert one.worker.marked == 0


async def test_what_another_bookie_lacks_is_no_place_to_take(one: Healing) -> None:
    """W3: it has all the rest; one who took its place with what it lacks would have only that."""
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await change(one.ledgers, 7, lambda it: it.with_lacking(1, 98, 99))
    await one.marks.set(7, ["b2 lacks something"], 0)
    await one.worker.look_once()
    assert await one.ensemble(7) == (BK1, BK2, BK3)
    assert one.peers.asked == [] and await one.marks.read(7) is not None


async def test_the_worker_fetches_what_lacks_here_and_says_that_it_is_whole(one: Healing) -> None:
    """W6: of what may be lacking only what is lacking is asked for."""
    await closed_ledger(one.ledgers, 7, SHAPE, LAST)
    await hold(one.world.bookie, 7, range(90))
    await change(one.ledgers, 7, lambda it: it.with_lacking(0, 80, 99))
    await one.marks.set(7, ["b0 lacks something"], 0)
    await one.worker.look_once()
    assert (await one.record(7)).fragments[0].lacking == ()
    assert one.peers.asked == [(7, 90, 99, ME)]
    assert await one.marks.read(7) is None


async def test_a_place_of_which_all_is_here_is_taken_from_one_that_lacks_some_of_it(one: Healing) -> None:
    """H1: what was moved here, and the metadata has forgotten that; with a gap here it stays where it is."""
    for ledger_id, held in ((7, range(100)), (8, range(1, 100))):
        await closed_ledger(one.ledgers, ledger_id, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
        await hold(one.world.bookie, ledger_id, held)
        await change(one.ledgers, ledger_id, lambda it: it.with_lacking(1, 0, 99))
        await one.marks.set(ledger_id, ["b2 lacks all"], 0)
    await one.worker.look_once()
    assert (await one.record(7)).fragments == (Fragment(0, (BK1, ME, BK3)),)
    assert await one.ensemble(8) == (BK1, BK2, BK3)
    assert await one.marks.read(7) is None and await one.marks.read(8) is not None


async def test_nothing_is_healed_of_metadata_that_was_restored_and_is_not_accepted(one: Healing) -> None:
    await one.loses_b2()
    await restored.begin(one.store, backup_ms=1, now_ms=2)
    await one.worker.look_once()
    assert BK2 in await one.ensemble(7)
    await restored.accept(one.store)
    await one.worker.look_once()
    assert BK2 not in await one.ensemble(7)


async def test_what_comes_to_nothing_is_told_and_tried_again_later(one: Healing) -> None:
    one.peers.lost = {7: {42}}
    await one.loses_b2()
    await one.worker.look_once()
    mark = await one.marks.read(7)
    assert mark is not None and mark.tries == 1 and "entry 42" in mark.why_not
    assert BK2 in await one.ensemble(7)
    one.peers.lost.clear()
    await one.worker.look_once()  # it is not due yet
    assert (await one.marks.read(7)) == mark
    one.worker._backoffs[7].not_before -= RETRY_SECONDS_MIN
    await one.worker.look_once()
    assert await one.marks.read(7) is None


async def test_what_others_have_healed_or_deleted_waits_no_longer(one: Healing) -> None:
    """Otherwise the table of what waits fills for ever, and past its bound nothing new is held back."""
    one.peers.lost = {7: {42}}
    await one.loses_b2()
    await one.worker.look_once()
    assert one.worker.waiting == 1
    await one.marks.remove(7)
    await one.worker.look_once()
    assert one.worker.waiting == 0


async def test_a_ledger_that_another_bookie_has_claimed_is_left_to_it(one: Healing) -> None:
    await one.loses_b2()
    lease = await one.store.grant_lease(60)
    await one.store.create(keys.healing(7), lease_lock.encode(LeaseLock(BK3, 0), b"n"), lease=lease)
    await one.worker.look_once()
    assert BK2 in await one.ensemble(7)
    await one.store.revoke_lease(lease)
    await one.worker.look_once()
    assert BK2 not in await one.ensemble(7)


async def test_a_bookie_that_is_not_registered_says_nothing_of_what_is_whole(one: Healing) -> None:
    """W7: another one may have its name by now."""
    await one.loses_b2()
    await one.dies(ME)
    await one.worker.look_once()
    assert BK2 in await one.ensemble(7)


async def test_a_ledger_that_was_left_behind_is_closed_and_then_healed(one: Healing) -> None:
    one.peers.ends = {7: 49}
    await open_ledger(one.ledgers, 7, SHAPE, Fragment(0, (BK1, BK2, BK3)))
    await one.is_lost(BK2)
    assert there(await one.marks.read(7)).reasons == (NOT_CLOSED,)
    await one.worker.look_once()
    assert one.peers.recovered == [7]
    await one.worker.look_once()
    record = await one.record(7)
    assert (record.last_entry, record.fragments[0].ensemble) == (49, (BK1, ME, BK3))
    assert await one.marks.read(7) is None


async def test_where_nobody_can_take_what_is_to_leave_a_living_bookie_the_mark_says_so_too(
    one: Healing,
) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (ME, BK1, BK2)))
    await one.dies(BK3)
    await one.given_up(BK3)
    await operator_requests.give(one.store, Order(BK2.bookie_id, OrderKind.DRAIN, 0))
    await one.auditor.look_once()
    assert (
        there(await one.marks.read(7)).why_not
        == f"entries 0 to 99: b2 is drained or decommissioned: {NO_TAKER}"
    )


async def test_what_is_closed_on_a_bookie_that_is_to_leave_is_marked_soon(
    one: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: nothing else changes in the cluster then that the auditor would look for."""
    monkeypatch.setattr(auditor, "CHANGED_SHARE", 0.0)
    monkeypatch.setattr(auditor, "CHANGED_SECONDS_MIN", 0.0)
    one.auditor = Auditor(one.store, ME, CONFIG, lambda: one.now, one.peers)
    known = one.auditor._ledgers
    known.start()
    await open_ledger(one.ledgers, 7, SHAPE, Fragment(0, (ME, BK1, BK2)))
    await operator_requests.give(one.store, Order(BK2.bookie_id, OrderKind.DRAIN, 0))
    await until_true(lambda: known.is_whole)
    await one.auditor.look_once()
    assert await one.marks.read(7) is None and not known.has_changed
    await change(one.ledgers, 7, lambda it: it.closed(LAST, 1000))
    await until_true(lambda: known.has_changed)
    await one.auditor.look_once()
    assert there(await one.marks.read(7)).reasons == ("entries 0 to 99: b2 is drained or decommissioned",)
    await known.stop()


async def test_what_a_bookie_that_does_not_heal_lacks_goes_to_another(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await change(one.ledgers, 7, lambda it: it.with_lacking(1, 98, 99))
    await one.dies(BK2)
    await one.registers(Registration(BK2, "b2:1", heals=False))
    await one.marks.set(7, ["b2 lacks something"], 0)
    await one.worker.look_once()
    assert await one.ensemble(7) == (BK1, ME, BK3)
    assert await one.world.read(7, 0, LAST) == (list(range(100)), set())


async def test_a_place_that_the_best_taker_does_not_take_goes_to_whoever_can(one: Healing) -> None:
    """H2: it lives, and something keeps it from healing."""
    for bookie, rack in ((ME, "r1"), (BK1, "r1"), (BK3, "r2")):
        await one.dies(bookie)
        await one.registers(Registration(bookie, f"{bookie}:1", rack))
    await closed_ledger(one.ledgers, 7, Shape(2, 2, 2), LAST, Fragment(0, (BK1, BK2)))
    await one.is_lost(BK2)
    await one.worker.look_once()
    assert await one.ensemble(7) == (BK1, BK2), "b3 stands better"
    one.passes(OVERDUE_SECONDS)
    one.worker._backoffs.clear()
    await one.worker.look_once()
    assert await one.ensemble(7) == (BK1, ME)


async def test_where_nobody_can_take_a_place_the_mark_says_so(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (ME, BK1, BK2)))
    await one.is_lost(BK2, BK3)
    mark = await one.marks.read(7)
    assert mark is not None and NO_TAKER in mark.why_not


async def test_the_auditor_counts_how_long_a_bookie_is_absent_and_notes_when_it_is_back(one: Healing) -> None:
    await one.dies(BK3)
    await one.auditor.look_once()
    one.passes(5)
    await one.auditor.look_once()
    (absence,) = await absent_bookies.list_absences(one.store)
    assert (absence.bookie_id, absence.since_ms) == ("b3", int(NOW * 1000))
    assert 5_000 <= absence.absent_ms < LOST_MS
    await one.registers(Registration(BK3, "b3:1"))
    await one.auditor.look_once()
    assert await absent_bookies.list_absences(one.store) == []


@pytest.mark.parametrize("seconds", [0.0, -3600.0, 3600.0], ids=["none", "back", "forward"])
async def test_a_lost_bookies_ledgers_are_marked_when_the_delay_is_over_whatever_step_the_wall_clock_makes(
    one: Healing, seconds: float
) -> None:
    """Nor does the clock of another auditor: the next one goes on where this one has ended."""
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (ME, BK1, BK3)))
    await one.dies(BK3)
    await one.auditor.look_once()
    one.passes(CONFIG.lost_bookie_seconds / 2)
    await one.auditor.look_once()
    one.now += seconds
    await one.auditor.look_once()
    assert await one.marks.read(7) is None
    other = Auditor(one.store, BK1, CONFIG, lambda: NOW - seconds, one.peers)
    await other.look_once()
    one.passes(CONFIG.lost_bookie_seconds / 4)
    await other.look_once()
    assert await one.marks.read(7) is None
    one.passes(CONFIG.lost_bookie_seconds / 4)
    await other.look_once()
    assert await one.marks.read(7) is not None


async def test_what_passes_while_the_metadata_is_away_is_no_absence(
    one: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bookie that came back meanwhile could not register."""
    monkeypatch.setattr(auditor, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(auditor, "LEASE_SECONDS", 10 * CONFIG.lost_bookie_seconds)

    async def counted(store: MemoryStore, more_than: int = 0) -> bool:
        return any(one.absent_ms > more_than for one in await absent_bookies.list_absences(store))

    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (ME, BK1, BK3)))
    await one.dies(BK3)
    store = FaultyStore(one.store._data)
    one.auditor = Auditor(store, ME, CONFIG, lambda: NOW, one.peers)

    async def was_away() -> bool:
        return bool(store.failures)

    auditing = asyncio.create_task(one.auditor.run())
    try:
        await until_true(lambda: counted(one.store))
        store.fail(StoreUnavailable("away, for this once"), calls=["list_page"], bad=1)
        one.passes(2 * CONFIG.lost_bookie_seconds)
        await until_true(was_away)
        before = (await absent_bookies.list_absences(one.store))[0].absent_ms
        await until_true(lambda: counted(one.store, before))
        assert await one.marks.read(7) is None
    finally:
        await cancel(auditing)


async def test_there_is_one_auditor_at_a_time(one: Healing) -> None:
    other = Auditor(one.store, BK1, CONFIG, lambda: NOW, one.peers)
    assert await one.auditor._is_elected()
    assert not await other._is_elected()
    assert await one.auditor._is_elected()
    await one.store.revoke_lease(there(one.auditor._held._lease))
    assert await other._is_elected()
    assert not await one.auditor._is_elected()


async def test_taking_stock_tells_what_was_lost_without_anybody_noticing(one: Healing) -> None:
    """The worker then fetches it."""
    await closed_ledger(one.ledgers, 7, SHAPE, LAST)
    await closed_ledger(one.ledgers, 8, SHAPE, LAST)
    await hold(one.world.bookie, 7, range(50), range(50, 100))
    await hold(one.world.bookie, 8, range(100))
    await one.world.bookie.drop([(7, one.world.places(7)[1])])
    stock = await one.stock.take_once()
    assert (stock.ledgers, stock.ledgers_lacking) == (2, 1)
    (lack,) = (await one.record(7)).fragments[0].lacking
    assert (lack.position, lack.first_entry, lack.last_entry) == (0, 50, 99)
    await one.worker.look_once()
    assert await one.world.read(7, 0, LAST) == (list(range(100)), set())
    assert (await one.record(7)).fragments[0].lacking == ()
    assert (await one.stock.take_once()).ledgers_lacking == 0


async def test_two_bookies_that_take_stock_of_a_ledger_at_once_both_tell_what_they_lack(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST)
    await hold(one.world.bookie, 7, range(50))
    async with one.world.upkeep:  # it has read the record, and looks at its frames next
        taking = asyncio.create_task(one.stock.take_once())
        await asyncio.sleep(0)
        await change(one.ledgers, 7, lambda it: it.with_lacking(1, 10, 20))
    assert (await taking).ledgers_lacking == 1
    lacking = (await one.record(7)).fragments[0].lacking
    assert {(lack.position, lack.first_entry) for lack in lacking} == {(0, 50), (1, 10)}


async def test_limbo_ends_by_itself(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST)
    await hold(one.world.bookie, 7, range(50))
    await one.world.limbo()
    await one.worker.look_once()
    assert not one.world.is_in_limbo(7)
    assert await one.world.read(7, 0, LAST) == (list(range(100)), set())


async def test_an_audit_takes_away_marks_of_ledgers_that_are_whole_or_gone(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (ME, BK1, BK2)))
    for ledger_id in (7, 8):
        await one.marks.set(ledger_id, ["once"], 0)
    view = await look(one.store, LOST_MS)
    audit = await one.auditor.audit(view)
    assert (audit.ledgers.total(), audit.fragments.total(), audit.to_heal) == (1, 1, 0)
    assert [mark async for mark in one.marks.list()] == []


async def test_a_draining_bookies_copy_is_read_from_it_too(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await operator_requests.give(one.store, Order("b2", OrderKind.DRAIN, 0))
    await one.auditor.look_once()
    await one.worker.look_once()
    assert await one.ensemble(7) == (BK1, ME, BK3)
    assert one.peers.asked == [(7, 0, 99, ME)]


async def test_a_record_that_cannot_be_read_keeps_nobody_else_from_being_healed(one: Healing) -> None:
    """Nor does a mark of a newer program."""
    await one.store.create(keys.ledger(3), NEWER)
    await one.store.create(keys.underreplicated(4), NEWER)
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await closed_ledger(one.ledgers, 4, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await one.marks.set(3, ["something"], 0)
    await one.is_lost(BK2)
    await one.marks.set(3, ["something"], 0)
    await one.worker.look_once()
    assert BK2 not in await one.ensemble(7)
    mark = await one.marks.read(3)
    assert mark is not None and "format version" in mark.why_not


NEWER = b"\x08\x63"
"""A message whose first field, the format's version, is far beyond ours."""


async def test_a_bookie_that_took_a_place_notes_what_it_belongs_to_now(one: Healing) -> None:
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3), number=1))
    await one.is_lost(BK2)
    await one.worker.look_once()
    record = await one.record(7)
    assert ME in record.fragments[0].ensemble
    assert one.world.bookie.index.notes.of(7) == {0: noted(record, 0)}


async def test_the_local_check_notes_what_the_bookie_was_never_told_but_not_from_metadata_that_went_back(
    one: Healing,
) -> None:
    fragments = Fragment(0, (ME, BK1, BK2), number=1), Fragment(40, (BK1, BK2, BK3), number=2)
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, *fragments)
    await hold(one.world.bookie, 7, range(40))
    await restored.begin(one.store, backup_ms=0, now_ms=1)
    await one.stock.take_once()
    assert one.world.bookie.index.notes.of(7) == {}
    assert await restored.accept(one.store)
    await one.stock.take_once()
    record = await one.record(7)
    assert one.world.bookie.index.notes.of(7) == {0: noted(record, 0)}
    written = one.world.bookie.log_position
    await one.stock.take_once()
    assert one.world.bookie.log_position == written


def noted(record: LedgerRecord, fragment: int) -> bytes:
    return fragment_note.encode(FragmentNote.of(record, record.fragments[fragment]))
