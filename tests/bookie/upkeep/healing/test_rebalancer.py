"""One bookie's rebalancer over real storage and a store in memory: H1 holds for what is moved for balance, too."""

from __future__ import annotations

import pytest

from metadata.healing import operator_requests, planned_moves
from metadata.healing.operator_requests import Order, OrderKind
from metadata.healing.planned_moves import Move, Moves
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import Fragment, LedgerRecord
from tests.bookie.upkeep.replicas import BK1, BK2, BK3, ME, closed_ledger, open_ledger
from tests.support.ledgers import change, delete

from .site import LAST, SHAPE, Healing

WISH = Move(0, BK2, ME)


@pytest.fixture
async def one(one: Healing) -> Healing:
    """It shall take a place of ledger 7."""
    await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
    await planned_moves.plan(one.store, Moves(7, (WISH,)))
    return one


async def planned(store: MemoryStore) -> list[Moves]:
    return [found async for found in planned_moves.list_moves(store)]


async def test_a_copy_is_moved_with_every_entry_and_the_wish_is_over(one: Healing) -> None:
    await one.rebalancer.look_once()
    assert await one.ensemble(7) == (BK1, ME, BK3)
    assert await one.world.read(7, 0, LAST) == (list(range(100)), set())
    assert await planned(one.store) == []
    assert one.peers.asked[0][3] == ME, "the old copy may be read, too"


async def test_what_others_shall_take_is_left_to_them(one: Healing) -> None:
    await planned_moves.plan(one.store, Moves(7, (Move(0, BK1, BK2), WISH)))
    await one.rebalancer.look_once()
    assert await planned(one.store) == [Moves(7, (Move(0, BK1, BK2),))]


async def test_a_wish_that_does_not_fit_any_more_is_dropped_and_nothing_is_changed(one: Healing) -> None:
    await planned_moves.plan(one.store, Moves(7, (Move(50, BK2, ME), WISH)))
    await change(one.ledgers, 7, lambda it: it.with_lacking(2, 5, 5))  # it is to be healed first
    await one.rebalancer.look_once()
    assert await one.ensemble(7) == (BK1, BK2, BK3)
    assert await planned(one.store) == []


async def test_a_copy_that_cannot_be_had_whole_stays_where_it_is(one: Healing) -> None:
    one.peers.lost = {7: {42}}
    await one.rebalancer.look_once()
    assert await one.ensemble(7) == (BK1, BK2, BK3)
    assert await planned(one.store) == []


async def test_what_is_still_written_is_not_moved_and_a_deleted_ledger_is_dropped(one: Healing) -> None:
    await open_ledger(one.ledgers, 8, SHAPE, Fragment(0, (BK1, BK2, BK3)))
    await planned_moves.plan(one.store, Moves(8, (WISH,)))
    await delete(one.ledgers, 7)
    await one.rebalancer.look_once()
    assert await one.ensemble(8) == (BK1, BK2, BK3)
    assert await planned(one.store) == []


async def test_nothing_of_a_ledger_in_recovery_is_moved(one: Healing) -> None:
    fragments = (Fragment(0, (BK1, BK2, BK3)), Fragment(50, (BK1, BK3, ME), 1000))
    record = LedgerRecord(8, SHAPE, fragments).in_recovery()
    await one.ledgers.create(record)
    await planned_moves.plan(one.store, Moves(8, (WISH,)))
    await one.rebalancer.look_once()
    assert (await one.record(8)).fragments == fragments
    assert await planned(one.store) == []


async def test_a_bookie_that_is_to_leave_takes_nothing(one: Healing) -> None:
    await operator_requests.give(one.store, Order(ME.bookie_id, OrderKind.DRAIN, 0))
    await one.rebalancer.look_once()
    assert await one.ensemble(7) == (BK1, BK2, BK3)
    assert await planned(one.store) == [Moves(7, (WISH,))]


async def test_an_operator_cancels_all_wishes(one: Healing) -> None:
    await planned_moves.plan(one.store, Moves(9, (WISH,)))
    assert await planned_moves.cancel(one.store) == 2
    assert await planned(one.store) == []
