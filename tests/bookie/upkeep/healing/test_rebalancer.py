"""One bookie's rebalancer over real storage and a store in memory: H1 holds for what is moved for balance, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bookie.upkeep.healing.rebalancer import Rebalancer
from metadata.healing import operator_requests, planned_moves
from metadata.healing.operator_requests import Order, OrderKind
from metadata.healing.planned_moves import Move, Moves
from metadata.memory import MemoryStore
from metadata.records.ledger_record import Fragment, LedgerRecord
from tests.bookie.upkeep.replicas import B1, B2, B3, ME, closed_ledger, open_ledger
from tests.support.ledgers import delete
from tests.support.present import there

from .test_worker import CONFIG, LAST, SHAPE, Healing, healing

WISH = Move(0, B2, ME)


@asynccontextmanager
async def moving(path: Path, *wished: Move) -> AsyncIterator[tuple[Healing, Rebalancer]]:
    async with healing(path) as one:
        worker = one.worker
        rebalancer = Rebalancer(one.store, ME, worker.healer, one.world.upkeep, CONFIG)
        await closed_ledger(one.ledgers, 7, SHAPE, LAST, Fragment(0, (B1, B2, B3)))
        await planned_moves.plan(one.store, Moves(7, wished))
        yield one, rebalancer


async def planned(store: MemoryStore) -> list[Moves]:
    return [found async for found in planned_moves.list_moves(store)]


async def test_H1_a_copy_is_moved_with_every_entry_and_the_wish_is_over(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, rebalancer):
        await rebalancer.look_once()
        assert (await one.record(7)).fragments[0].ensemble == (B1, ME, B3)
        assert await one.world.read(7, 0, LAST) == (list(range(100)), set())
        assert await planned(one.store) == []
        assert one.peers.asked[0][3] == ME, "the old copy may be read, too"


async def test_what_others_shall_take_is_left_to_them(tmp_path: Path) -> None:
    async with moving(tmp_path, Move(0, B1, B2), WISH) as (one, rebalancer):
        await rebalancer.look_once()
        assert await planned(one.store) == [Moves(7, (Move(0, B1, B2),))]


async def test_a_wish_that_does_not_fit_any_more_is_dropped_and_nothing_is_changed(tmp_path: Path) -> None:
    async with moving(tmp_path, Move(50, B2, ME), WISH) as (one, rebalancer):
        found = there(await one.ledgers.read(7))
        lacking = found.record.with_lacking(2, 5, 5)  # it is to be healed first
        await one.ledgers.change(lacking, found.version)
        await rebalancer.look_once()
        assert (await one.record(7)).fragments[0].ensemble == (B1, B2, B3)
        assert await planned(one.store) == []


async def test_H1_a_copy_that_cannot_be_had_whole_stays_where_it_is(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, rebalancer):
        one.peers.lost = {7: {42}}
        await rebalancer.look_once()
        assert (await one.record(7)).fragments[0].ensemble == (B1, B2, B3)
        assert await planned(one.store) == []


async def test_what_is_still_written_is_not_moved_and_a_deleted_ledger_is_dropped(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, rebalancer):
        await open_ledger(one.ledgers, 8, SHAPE, Fragment(0, (B1, B2, B3)))
        await planned_moves.plan(one.store, Moves(8, (WISH,)))
        await delete(one.ledgers, 7)
        await rebalancer.look_once()
        assert (await one.record(8)).fragments[0].ensemble == (B1, B2, B3)
        assert await planned(one.store) == []


async def test_nothing_of_a_ledger_in_recovery_is_moved(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, rebalancer):
        fragments = (Fragment(0, (B1, B2, B3)), Fragment(50, (B1, B3, ME), 1000))
        record = LedgerRecord(8, SHAPE, fragments).in_recovery()
        await one.ledgers.create(record)
        await planned_moves.plan(one.store, Moves(8, (WISH,)))
        await rebalancer.look_once()
        assert (await one.record(8)).fragments == fragments
        assert await planned(one.store) == []


async def test_a_bookie_that_is_to_leave_takes_nothing(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, rebalancer):
        await operator_requests.give(one.store, Order(ME.bookie_id, OrderKind.DRAIN, 0))
        await rebalancer.look_once()
        assert (await one.record(7)).fragments[0].ensemble == (B1, B2, B3)
        assert await planned(one.store) == [Moves(7, (WISH,))]


async def test_an_operator_cancels_all_wishes(tmp_path: Path) -> None:
    async with moving(tmp_path, WISH) as (one, _):
        await planned_moves.plan(one.store, Moves(9, (WISH,)))
        assert await planned_moves.cancel(one.store) == 2
        assert await planned(one.store) == []
