"""A quantity that peers share: bounded in all and for each, served in turn, and given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.limits_config import Limits
from bookie.serving.limits.admission import Guard
from bookie.serving.limits.descriptors import UNLIMITED
from bookie.serving.limits.shared_quota import Account, Budget
from bookie.wire.columnar_entries import FRAME_BYTES_MAX
from bookie.wire.grpc_methods import MESSAGE_BYTES_MAX


def account(budget: Budget, peer: str, on_held: Callable[[], None] = lambda: None) -> Account:
    return Account(budget, peer, lambda: None, lambda _: None, on_held)


def test_a_peer_has_what_is_its_own_and_not_one_more() -> None:
    budget = Budget(8, 4)
    assert budget.take_now("a", 4) and not budget.take_now("a", 1)
    assert budget.take_now("b", 2) and not budget.take_now("b", 1), "what there is for those that hold much"
    assert (budget.held, budget.held_max, budget.waits) == (6, 6, 2)
    budget.give("a", 1)
    assert budget.take_now("b", 1) and not budget.take_now("a", 1)


def test_the_last_quarter_is_for_those_that_hold_little() -> None:
    budget = Budget(48 * 16, 36 * 16)
    assert budget.take_now("much", 36 * 16) and not budget.take_now("more", 17)
    for number in range(12):
        assert budget.take_now(f"little {number}", 16) and not budget.take_now(f"little {number}", 1)
    assert not budget.take_now("one more", 1) and budget.held == budget.in_all


def test_a_message_of_a_whole_frame_is_little() -> None:
    budget = Guard(Limits(), UNLIMITED, lambda: 0.0).received
    for number in range(6):
        assert budget.take_now(f"sends halves {number}", MESSAGE_BYTES_MAX)
    assert not budget.take_now("sends halves 6", MESSAGE_BYTES_MAX)
    assert budget.take_now("writer", FRAME_BYTES_MAX * 5 // 4), "entries, their columns and the frame"


async def test_who_waits_is_served_as_soon_as_it_fits_each_peer_in_turn() -> None:
    budget, served = Budget(2, 2), list[str]()

    async def take(peer: str, name: str) -> None:
        await budget.take(peer, 1)
        served.append(name)

    assert budget.take_now("z", 2)
    names = ("a1", "a2", "a3", "b1", "c1")
    waiting = [asyncio.create_task(take(name[0], name)) for name in names]
    await asyncio.sleep(0)
    assert budget.is_short_for("z") and not served
    for _ in range(2):
        budget.give("z", 1)
        await asyncio.sleep(0)
    assert served == ["a1", "b1"], "one line does not wait for the end of another"
    for name in ("a", "b", "c"):
        budget.give(served[-1][0], 1)
        await asyncio.sleep(0)
        assert name
    await asyncio.gather(*waiting)
    assert sorted(served) == sorted(names) and not budget.is_short_for("z")


async def test_a_peer_at_its_own_limit_is_short_for_itself_and_for_nobody_else() -> None:
    budget = Budget(10, 2)
    assert budget.take_now("a", 2)
    waiting = asyncio.create_task(budget.take("a", 1))
    await asyncio.sleep(0)
    assert budget.is_short_for("a") and not budget.is_short_for("b")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert budget.take_now("b", 2)


async def test_what_was_granted_to_one_who_waits_no_more_is_free_again() -> None:
    budget = Budget(1, 1)
    assert budget.take_now("a", 1)
    waiting = asyncio.create_task(budget.take("b", 1))
    await asyncio.sleep(0)
    budget.give("a", 1)  # granted to b, which does not know it yet
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget.held == 0 and budget.take_now("c", 1)


async def test_a_closed_account_holds_nothing_also_of_what_is_granted_later() -> None:
    budget, held = Budget(4, 4), list[str]()
    one, other = account(budget, "a", lambda: held.append("a")), account(budget, "b")
    assert one.take_now(3) and held == ["a"]
    one.change(1)
    one.change(-2)
    assert (one.held, budget.held) == (2, 2)
    waiting = asyncio.create_task(other.take(3))
    await asyncio.sleep(0)
    other.close()
    one.close()
    await waiting
    assert budget.held == 0 and not budget.accounts
    one.change(-2)
    assert budget.held == 0, "what is given back after the end was given back before"


def test_what_is_in_memory_already_counts_though_there_is_no_room_for_it() -> None:
    budget = Budget(4, 4)
    mine = account(budget, "a")
    assert mine.take_now(4)
    mine.change(3)
    assert budget.held == 7 and not budget.take_now("b", 1)


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.booleans()), max_size=40),
)
async def test_nobody_ever_holds_more_than_the_limits_and_nothing_is_lost(
    steps: list[tuple[str, int, bool]],
) -> None:
    budget, held = Budget(8, 5), list[tuple[str, int]]()

    async def take(peer: str, amount: int) -> None:
        await budget.take(peer, amount)
        held.append((peer, amount))

    tasks: list[asyncio.Task[None]] = []
    for peer, amount, takes in steps:
        if takes or not held:
            tasks.append(asyncio.create_task(take(peer, amount)))
        else:
            budget.give(*held.pop())
        await asyncio.sleep(0)
        assert budget.held == sum(amount for _, amount in held) <= 8
        for name in "abc":
            assert sum(amount for peer, amount in held if peer == name) <= 5
    while not all(task.done() for task in tasks):
        assert held, "somebody waits for ever"
        budget.give(*held.pop())
        await asyncio.sleep(0)
