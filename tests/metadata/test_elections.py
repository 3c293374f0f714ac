"""Queues of candidates and terms in the three stores."""

from __future__ import annotations

import asyncio

import pytest

from metadata import keys
from metadata.errors import BadRecord, LeaseLost, OutcomeUnknown
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.coordination import election_record
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.coordination.election_record import TermRecord, begin_term, current_term
from metadata.store import PAGE_KEYS_MAX, MetadataStore
from tests.support.candidates import enter
from tests.support.faulty_store import FaultyStore

LED = keys.election("scheduler")


async def test_candidates_stand_in_the_order_in_which_they_came(store: MetadataStore) -> None:
    candidates, lease = CandidateStore(store, LED), await store.grant_lease(60)
    came = [await enter(candidates, name, 7, lease) for name in "abc"]
    queue = await candidates.queue()
    assert list(queue.candidates) == came
    assert [(one.name, one.since_ms) for one in came] == [("a", 7), ("b", 7), ("c", 7)]
    assert [queue.before(one) for one in came] == [None, *came[:2]]


async def test_who_waits_is_told_when_the_one_before_it_leaves(store: MetadataStore) -> None:
    candidates = CandidateStore(store, LED)
    leases = [await store.grant_lease(60) for _ in range(3)]
    first, second, _ = [await enter(candidates, "x", 0, lease) for lease in leases]
    revision = (await candidates.queue()).revision
    waiting = asyncio.ensure_future(candidates.gone(first, revision))
    await store.revoke_lease(leases[2])  # another one's
    await store.revoke_lease(leases[0])
    await waiting
    await candidates.gone(first, revision)  # also one that begins to wait later
    assert (await candidates.queue()).candidates == (second,)


async def test_a_candidate_without_a_lease_gets_no_place(store: MetadataStore) -> None:
    candidates, lease = CandidateStore(store, LED), await store.grant_lease(60)
    await store.revoke_lease(lease)
    with pytest.raises(LeaseLost):
        await enter(candidates, "x", 0, lease)
    assert (await candidates.queue()).candidates == ()


async def test_each_term_has_a_token_of_its_own_that_only_grows(store: MetadataStore) -> None:
    candidates = CandidateStore(store, LED)
    leases = [await store.grant_lease(60) for _ in range(5)]
    came = [await enter(candidates, f"c{n}", 0, lease) for n, lease in enumerate(leases)]
    begun = await asyncio.gather(*(begin_term(store, "scheduler", one, 9) for one in came))
    assert sorted(term.token for term in begun) == [1, 2, 3, 4, 5]
    latest = max(begun, key=lambda term: term.token)
    assert await current_term(store, "scheduler") == latest
    assert latest == TermRecord(5, latest.leader, 9, latest.candidate)
    assert (await begin_term(store, "other", came[0], 9)).token == 1


async def test_nobody_leads_once_the_leader_has_left(store: MetadataStore) -> None:
    assert await current_term(store, "scheduler") is None
    lease = await store.grant_lease(60)
    leader = await enter(CandidateStore(store, LED), "a", 0, lease)
    term = await begin_term(store, "scheduler", leader, 9)
    assert await current_term(store, "scheduler") == term
    await store.revoke_lease(lease)
    assert await current_term(store, "scheduler") is None
    assert (await begin_term(store, "scheduler", leader, 9)).token == 2


async def test_a_term_whose_answer_was_lost_is_begun_once() -> None:
    store = FaultyStore()
    leader = await enter(CandidateStore(store, LED), "a", 0, await store.grant_lease(60))
    for done in (True, False, True):
        store.fail(OutcomeUnknown("the answer was lost"), bad=1, done=done)
    assert [(await begin_term(store, "scheduler", leader, 9)).token for _ in range(2)] == [1, 2]


async def test_more_candidates_than_can_be_told_in_their_order_are_refused() -> None:
    store = MemoryStore(MemoryData())
    candidates, lease = CandidateStore(store, LED), await store.grant_lease(60)
    for _ in range(PAGE_KEYS_MAX):
        await enter(candidates, "x", 0, lease)
    assert len((await candidates.queue()).candidates) == PAGE_KEYS_MAX
    await enter(candidates, "x", 0, lease)
    with pytest.raises(BadRecord, match="more than 1000 candidates are waiting: start fewer"):
        await candidates.queue()


async def test_a_candidate_of_a_newer_program_has_its_place_in_the_queue() -> None:
    store = MemoryStore(MemoryData())
    candidates, lease = CandidateStore(store, LED), await store.grant_lease(60)
    await store.create(keys.candidate(LED, b"n"), b"\x08\x63", lease=lease)
    mine = await enter(candidates, "x", 0, lease)
    before = (await candidates.queue()).before(mine)
    assert before is not None
    assert before.name == ""


@pytest.mark.parametrize("value", [b"\x08\x01", b"\x08\x63\x10\x01", b"\xff"])
def test_an_election_that_cannot_be_understood_is_no_election(value: bytes) -> None:
    with pytest.raises(BadRecord, match="elections/scheduler"):
        election_record.decode(LED, value)
