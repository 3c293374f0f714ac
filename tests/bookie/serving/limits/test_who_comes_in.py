"""Connections, polls and false proofs: at each limit, and one past it."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bookie.errors import BookieError
from bookie.limits_config import Limits
from bookie.serving.limits import admission, descriptors
from bookie.serving.limits.admission import AuthBackoff, LongPolls, LoopQuota
from bookie.wire import connection_table
from bookie.wire.connection_table import ClientConnection, ConnectionTable, Places


@dataclass
class Visits:
    """A connection table, and who was cut."""

    table: ConnectionTable
    cut: list[str] = field(default_factory=list)

    def enter(self, peer: str, *, busy: bool | None = None) -> ClientConnection | str:
        """A newcomer; one of whom it is known whether it is busy has said what it is."""
        visitor = self.table.enter(peer, lambda _: self.cut.append(peer))
        if busy is not None:
            assert isinstance(visitor, ClientConnection), visitor
            self.table.is_known(visitor, lambda: not busy)
        return visitor


PLACES = Places(
    connections_max=6,
    connections_a_peer_max=100,
    strangers_max=100,
    strangers_a_peer_max=100,
    tools_max=10,
    tools_a_peer_max=10,
)


def visits_of(**places: Any) -> Visits:
    return Visits(ConnectionTable(replace(PLACES, **places)))


async def test_an_address_has_so_many_connections_and_not_one_more() -> None:
    visits = visits_of(connections_a_peer_max=2)
    first = visits.enter("a")
    assert isinstance(first, ClientConnection) and isinstance(visits.enter("a"), ClientConnection)
    assert visits.enter("a") == "2 connections of this address are open, and no more may be"
    assert isinstance(visits.enter("b"), ClientConnection) and visits.table.refused == 1
    visits.table.leave(first)
    visits.table.leave(first)
    assert isinstance(visits.enter("a"), ClientConnection) and visits.table.count == 3


async def test_where_all_places_are_taken_the_largest_crowd_gives_one_of_those_that_wait_for_nothing() -> (
    None
):
    visits = visits_of()
    for busy in (True, False, False, True):
        visits.enter("many", busy=busy)
    for _ in range(2):
        visits.enter("few", busy=False)
    assert isinstance(visits.enter("new"), ClientConnection) and visits.cut == ["many"]
    assert isinstance(visits.enter("few"), str), "with three each nobody gives way"
    assert visits.cut == ["many"] and visits.table.count == 6


async def test_nobody_who_waits_for_something_gives_way() -> None:
    visits = visits_of()
    for _ in range(6):
        visits.enter("many", busy=True)
    assert visits.enter("new") == "6 connections are open at this port, and no more may be"
    assert not visits.cut and visits.table.refused == 1


async def test_where_that_is_allowed_the_largest_crowd_gives_even_one_that_is_at_work() -> None:
    visits = visits_of(busy_go=True)
    for _ in range(6):
        visits.enter("many", busy=True)
    assert isinstance(visits.enter("new"), ClientConnection) and visits.cut == ["many"]


async def test_where_that_is_allowed_an_address_at_its_bound_loses_its_oldest_idle_one() -> None:
    visits = visits_of(connections_a_peer_max=2, own_idle_go=True)
    visits.enter("a", busy=True)
    idle = visits.enter("a", busy=False)
    newest = visits.enter("a", busy=True)
    assert visits.cut == ["a"] and isinstance(newest, ClientConnection) and isinstance(idle, ClientConnection)
    visits.table.leave(idle)
    assert visits.table.count == 2, "the idle one has gone already"
    assert visits.enter("a") == "2 connections of this address are open, and no more may be"


async def test_a_stranger_that_had_its_time_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = visits_of(connections_max=20, strangers_max=3, strangers_a_peer_max=2)
    for peer in ("a", "b", "b"):
        visits.enter(peer)
    assert not visits.cut, "none of them had the time to say what it is"
    monkeypatch.setattr(connection_table, "STRANGER_SECONDS_MIN", 0.0)
    visits.enter("b")
    assert visits.cut == ["b"], "its own address is past its bound"
    visits.enter("c")
    assert visits.cut == ["b", "a"], "the oldest of all"
    assert visits.table.strangers == 3


async def test_so_many_tools_are_let_in() -> None:
    visits = visits_of(tools_max=2, tools_a_peer_max=1)
    seen = [visits.enter(peer) for peer in ("a", "a", "b", "c")]
    visitors = [one for one in seen if isinstance(one, ClientConnection)]
    assert [visits.table.is_tool(one) for one in visitors] == [True, False, True, False]
    visits.table.leave(visitors[0])
    assert visits.table.is_tool(visitors[3])


async def test_past_the_bound_the_poll_that_waits_the_longest_is_answered() -> None:
    polls = LongPolls(3, 2)
    first, second = polls.begin("a"), polls.begin("a")
    third = polls.begin("a")
    assert (first.done(), second.done(), polls.held, polls.hurried) == (True, False, 2, 1)
    other = polls.begin("b")
    assert not second.done() and polls.held == 3
    last = polls.begin("b")
    assert second.done() and not other.done(), "of the address that has the most"
    for peer, poll in (("a", first), ("a", third), ("b", other), ("b", last), ("b", last)):
        polls.end(peer, poll)
    assert (polls.held, polls.held_max) == (0, 3)


def test_false_proofs_make_an_address_wait_longer_each_time_and_are_forgotten() -> None:
    now = [0.0]
    seen = AuthBackoff(lambda: now[0])
    assert seen.penalty_seconds("a") == 0
    waits = []
    for _ in range(8):
        seen.was_false("a")
        waits.append(seen.penalty_seconds("a"))
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8] and waits[-1] == admission.PENALTY_SECONDS_MAX
    assert seen.penalty_seconds("b") == 0 and seen.proofs_refused == 8
    now[0] = admission.FORGIVEN_SECONDS
    assert seen.penalty_seconds("a") == 0
    seen.was_false("a")
    assert seen.penalty_seconds("a") == 0.1


def test_so_many_suspects_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "SUSPECTS_MAX", 2)
    seen = AuthBackoff(lambda: 0.0)
    for peer in ("a", "b", "a", "c"):
        seen.was_false(peer)
    assert [seen.penalty_seconds(peer) for peer in "abc"] == [0.2, 0.0, 0.1]


async def test_in_a_turn_of_the_loop_so_many_are_done_and_others_go_on_in_between() -> None:
    turns, done = LoopQuota(4), [0]
    most, before = 0, 0

    async def work() -> None:
        await turns.take()
        done[0] += 1

    working = [asyncio.create_task(work()) for _ in range(40)]
    while not all(task.done() for task in working):
        await asyncio.sleep(0)
        most, before = max(most, done[0] - before), done[0]
    assert done[0] == 40 and most <= 8, "what was left of the turn before, and a whole one"


def test_connections_stay_far_below_what_the_process_may_open() -> None:
    least = descriptors.DESCRIPTORS_KEPT + 2 * 10 + descriptors.CONNECTIONS_MIN
    assert descriptors.connections_that_fit(least, 10) == descriptors.CONNECTIONS_MIN
    with pytest.raises(BookieError, match=f"may open {least - 1} files, but a bookie needs at least {least}"):
        descriptors.connections_that_fit(least - 1, 10)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        assert descriptors.allow_most() in (before[1], descriptors.UNLIMITED)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_lets_somebody_in_and_a_whole_message_too() -> None:
    with pytest.raises(ValueError, match="every limit must be above 0"):
        Limits(polls_max=0)
    with pytest.raises(ValueError, match="share of one address must be at most 1"):
        Limits(peer_share=1.5)
    with pytest.raises(ValueError, match="messages must have room"):
        Limits(received_bytes_max=1024)
