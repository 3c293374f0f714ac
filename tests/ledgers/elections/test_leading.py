"""One leader at a time, by virtual time: whoever leads was told of no other one's end before it had ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec

import pytest

from ledgers import ClientClosed, LeadershipLost, MetadataUnavailable
from ledgers.aio import Election, LedgerClient, Term
from ledgers.elections.campaign import LEASE_SECONDS, RETRY_SECONDS
from metadata import keys
from metadata.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from metadata.leases import lease_clock
from metadata.leases.held_key import GONE, NOT_IN_TIME
from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import Lease
from tests.simulation.engine.loop import VirtualLoop
from tests.support.faulty_store import FaultyStore

SOON = 0.001
CROSSING = {"create", "list_page", "keep_lease", "revoke_lease"}
"""Calls of a campaign that fail while its way to the store is cut."""

P = ParamSpec("P")


class Distant(FaultyStore):
    """Who hears nothing of a renewal has waited for it for a second."""

    async def keep_lease(self, lease: Lease) -> None:
        try:
            await super().keep_lease(lease)
        except StoreUnavailable:
            await asyncio.sleep(1)
            raise


class Programs:
    """Programs on one store, each with a client and a way to the store of its own."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.stores: dict[str, Distant] = {}
        self.clients: dict[str, LedgerClient] = {}

    async def election(self, name: str) -> Election:
        client = LedgerClient("memory://unused")
        await client.connect()
        assert client._cluster is not None
        self.stores[name] = client._cluster.store = client._store = Distant(self.data)
        self.clients[name] = client
        return client.election("scheduler")

    def cut(self, *names: str) -> None:
        """These programs' ways to the store, until they are healed."""
        for name in names:
            self.stores[name].fail(StoreUnavailable("no answer"), calls=CROSSING)

    def heal(self, *names: str) -> None:
        for name in names:
            self.stores[name].heal()

    async def candidates(self) -> int:
        return len((await MemoryStore(self.data).list_page(keys.CANDIDATES)).items)


class Leader:
    """A program that leads until it is told to leave."""

    def __init__(self, election: Election, name: str, log: list[str]) -> None:
        self.leave = asyncio.Event()
        self.began = asyncio.Event()
        self.term: Term | None = None
        self._log = log
        self.task = asyncio.create_task(self._lead(election, name))

    async def _lead(self, election: Election, name: str) -> None:
        async with election.lead(name) as self.term:
            self._log.append(f"{name} leads")
            self.began.set()
            await self.leave.wait()

    async def begun(self) -> Term:
        await self.began.wait()
        assert self.term is not None
        return self.term

    async def left(self) -> None:
        self.leave.set()
        await self.task


def virtually(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def by_virtual_time(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return by_virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


@virtually
async def test_who_comes_first_leads_at_once_and_each_term_has_a_higher_token() -> None:
    election = await Programs().election("a")
    for token in (1, 2, 3):
        async with election.lead("me") as term:
            assert (term.token, term.election, term.leader) == (token, "scheduler", "me")
            assert not term.lost.is_set()
            term.check()
            leader = await election.leader()
            assert leader is not None
            assert (leader.token, leader.leader) == (token, "me")
        assert await election.leader() is None
    assert now() < SOON


@virtually
async def test_who_waits_leads_as_soon_as_the_leader_leaves_in_the_order_of_the_queue() -> None:
    programs, log = Programs(), list[str]()
    leaders = []
    for name in "abc":
        leaders.append(Leader(await programs.election(name), name, log))
        await asyncio.sleep(1)
    assert log == ["a leads"]
    for n, leader in enumerate(leaders):
        assert (await leader.begun()).token == n + 1
        before = now()
        await leader.left()
        if n < 2:
            await leaders[n + 1].begun()
            assert now() - before < SOON
    assert log == ["a leads", "b leads", "c leads"]
    assert await programs.candidates() == 0


@virtually
async def test_a_leader_that_is_cut_off_knows_that_its_term_is_over_before_the_next_one_begins() -> None:
    programs, log = Programs(), list[str]()
    old = Leader(await programs.election("old"), "old", log)
    term = await old.begun()
    term.on_lost(lambda: log.append("old is told"))
    new = Leader(await programs.election("new"), "new", log)
    await asyncio.sleep(30)
    cut_at = now()
    programs.cut("old")
    assert (await new.begun()).token == 2
    assert now() - cut_at <= LEASE_SECONDS + SOON
    assert log == ["old leads", "old is told", "new leads"]
    assert term.lost.is_set()
    assert term.why_lost == NOT_IN_TIME
    with pytest.raises(LeadershipLost, match="term 1 of election 'scheduler' is over: its lease was not"):
        term.check()
    await old.left()
    await new.left()


@virtually
async def test_a_process_that_was_stopped_finds_at_its_first_check_that_its_term_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (await Programs().election("a")).lead() as term:
        term.check()
        later = now() + LEASE_SECONDS
        monkeypatch.setattr(lease_clock, "now", lambda: later)
        with pytest.raises(LeadershipLost, match="not renewed in time"):
            term.check()
        assert term.lost.is_set()


@virtually
async def test_a_leader_whose_key_somebody_deletes_learns_it_at_the_next_renewal_and_stands_no_more() -> None:
    programs = Programs()
    async with (await programs.election("a")).lead() as term:
        store = MemoryStore(programs.data)
        (item,) = (await store.list_page(keys.CANDIDATES)).items
        await store.delete(item.key, item.version)
        async with (await programs.election("b")).lead() as next_term:
            assert next_term.token == term.token + 1
            await term.lost.wait()
        assert now() < LEASE_SECONDS / 2
        assert term.why_lost == GONE


@virtually
async def test_who_leaves_is_not_called_back_and_who_asks_too_late_is() -> None:
    programs, called = Programs(), list[str]()
    election = await programs.election("a")
    async with election.lead() as left:
        left.on_lost(lambda: called.append("left"))
    assert left.lost.is_set()
    async with election.lead() as lost:
        programs.cut("a")
        await lost.lost.wait()
        lost.on_lost(lambda: called.append("lost"))
        await asyncio.sleep(0)
        programs.heal("a")
    assert called == ["lost"]


@virtually
async def test_who_waits_outlasts_an_outage_of_the_store_and_then_leads() -> None:
    programs, log = Programs(), list[str]()
    first = Leader(await programs.election("a"), "a", log)
    await first.begun()
    second = Leader(await programs.election("b"), "b", log)
    await asyncio.sleep(1)
    programs.cut("a", "b")
    await asyncio.sleep(5 * LEASE_SECONDS)
    programs.heal("a", "b")
    assert (await second.begun()).token == 2
    await first.left()
    await second.left()
    assert await programs.candidates() == 0


@virtually
async def test_a_store_that_refuses_is_not_waited_for() -> None:
    programs = Programs()
    election = await programs.election("a")
    programs.stores["a"].fail(StoreRefused("permission denied"), calls=CROSSING)
    with pytest.raises(MetadataUnavailable, match="permission denied"):
        async with election.lead():
            pass


@pytest.mark.parametrize("is_cancelled", [False, True])
@virtually
async def test_who_gives_up_waiting_is_in_nobodys_way(is_cancelled: bool) -> None:
    programs = Programs()
    first = Leader(await programs.election("a"), "a", [])
    await first.begun()
    second = await programs.election("b")
    if is_cancelled:
        waiting = Leader(second, "b", [])
        await asyncio.sleep(1)
        waiting.task.cancel()
        with suppress(asyncio.CancelledError):
            await waiting.task
    else:
        with pytest.raises(TimeoutError):
            async with second.lead(timeout=1):
                pass
    assert await programs.candidates() == 1
    await first.left()


@virtually
async def test_a_place_whose_answer_was_lost_stands_before_nobody() -> None:
    programs = Programs()
    election = await programs.election("a")
    programs.stores["a"].fail(OutcomeUnknown("the answer was lost"), calls={"create"}, bad=1, done=True)
    async with election.lead() as term:
        assert term.token == 1
        assert await programs.candidates() == 1
        assert now() <= RETRY_SECONDS + SOON


@virtually
async def test_a_closed_client_leaves_what_it_leads_and_waits_for_nothing_more() -> None:
    programs, log = Programs(), list[str]()
    leaders = []
    for name in "abc":
        leaders.append(Leader(await programs.election(name), name, log))
        await asyncio.sleep(1)
    first, second, third = leaders
    term = await first.begun()
    before = now()
    await programs.clients["b"].close()
    await programs.clients["a"].close()
    await third.begun()
    assert now() - before <= RETRY_SECONDS + SOON
    assert term.why_lost == "the client was closed"
    assert log == ["a leads", "c leads"]
    with pytest.raises(ClientClosed):
        await second.task
    await first.left()
    await third.left()


@virtually
async def test_who_has_lost_its_place_when_its_term_would_begin_does_not_lead_and_queues_up_again() -> None:
    programs, log = Programs(), list[str]()
    election = await programs.election("slow")
    slow = programs.stores["slow"]
    slow_get = slow.get

    async def hangs(key: str) -> Any:
        if key == keys.election("scheduler") and now() < 1:
            await asyncio.sleep(2 * LEASE_SECONDS)
        return await slow_get(key)

    slow.get = hangs  # type: ignore[method-assign]
    leader = Leader(election, "slow", log)
    await asyncio.sleep(SOON)
    programs.cut("slow")
    other = Leader(await programs.election("other"), "other", log)
    await other.begun()
    await asyncio.sleep(2 * LEASE_SECONDS)
    programs.heal("slow")
    await asyncio.sleep(LEASE_SECONDS)
    assert log == ["other leads"]
    before = (await other.begun()).token
    await other.left()
    assert (await leader.begun()).token > before
    await leader.left()


@pytest.mark.parametrize("seconds", [0.5, 3601, float("nan")])
def test_an_unusable_lease_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a lease lasts 1 to 3600 seconds"):
        LedgerClient("memory://x").election("e").lead(lease_seconds=seconds)


def test_an_unusable_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'a/b' is not a usable name"):
        LedgerClient("memory://x").election("a/b")
