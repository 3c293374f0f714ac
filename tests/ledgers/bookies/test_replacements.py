"""Which bookies take the places of failed ones."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence

import pytest

from bookie.wire import InfoReply
from ledgers.bookie_client import BookieClient
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.health_probes import NOT_WRITABLE, REMEMBERED_SECONDS_MAX, choose_alive
from ledgers.bookies.replacements import find_replacements
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieStarting, BookieUnavailable
from ledgers.protocol.effects import FindReplacements
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from tests.support.aio import run

B1, B2, B3, B4, B5, B6 = (BookieRef(f"b{n}", f"i{n}") for n in range(1, 7))
B1_ANEW = BookieRef("b1", "formatted anew")
ENSEMBLE = (B1, B2, B3)
HUNG_SECONDS = 60.0
SEARCH_SECONDS_MAX = 10.0


class Answering(ConnectedBookies):
    """Only these bookies answer; some say that they are read-only."""

    def __init__(
        self, alive: Sequence[BookieRef], read_only: Sequence[BookieRef], hung: Sequence[BookieRef] = ()
    ) -> None:
        super().__init__(MemoryStore(), ClientConfig())
        self._alive = alive
        self._read_only = read_only
        self._hung = hung
        self.starting: set[BookieRef] = set()
        self.heard: set[BookieRef] = set()
        self.asked: list[BookieRef] = []

    def heard_at(self, bookie: BookieRef) -> float:
        return asyncio.get_running_loop().time() if bookie in self.heard else -math.inf

    async def info(self, bookie: BookieRef) -> InfoReply:
        self.asked.append(bookie)
        if bookie in self.starting:
            raise BookieStarting(str(bookie), "it reads its log")
        if bookie in self._hung:
            await asyncio.sleep(HUNG_SECONDS)
            raise BookieUnavailable(str(bookie), "deadline exceeded")
        if bookie not in self._alive:
            raise BookieUnavailable(str(bookie), "silent")
        return InfoReply(
            bookie.bookie_id, bookie.incarnation, "c", "1", 1, 1, 0, 0, 0, bookie in self._read_only
        )


def found(
    registered: Sequence[BookieRef],
    *failed: int,
    alive: Sequence[BookieRef],
    read_only: Sequence[BookieRef] = (),
    in_place: bool = False,
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    async def scenario() -> tuple[dict[int, BookieRef], dict[str, str]]:
        store = MemoryStore()
        for bookie in registered:
            registration = Registration(bookie, f"{bookie.bookie_id}:3181")
            await store.create(registration.key, registration.encode())
        bookies: BookieClient = Answering(alive, read_only)
        cluster = Cluster(store, LedgerStore(store), bookies, ClientConfig(), random.Random(0))
        effect = FindReplacements(ENSEMBLE, dict.fromkeys(failed, "gone"), in_place)
        return await find_replacements(cluster, effect, 3)

    return run(scenario())


def test_a_spare_bookie_is_preferred_to_the_failed_one_that_is_back() -> None:
    assert found([*ENSEMBLE, B4], 0, alive=[*ENSEMBLE, B4])[0] == {0: B4}


def test_a_failed_bookie_that_is_back_takes_its_own_place_where_there_is_no_other() -> None:
    assert found(ENSEMBLE, 0, alive=ENSEMBLE)[0] == {0: B1}


def test_a_bookie_formatted_anew_takes_the_place_of_its_former_self_and_no_other() -> None:
    registered = [B1_ANEW, B2, B3]
    assert found(registered, 0, alive=registered)[0] == {0: B1_ANEW}
    assert found(registered, 1, alive=[B1_ANEW, B3])[0] == {}


def test_in_place_only_the_failed_bookie_itself_is_looked_at() -> None:
    assert found([B1_ANEW, B2, B3, B4], 0, alive=[B1_ANEW, B4], in_place=True)[0] == {}
    assert found([*ENSEMBLE, B4], 0, alive=[B1, B4], in_place=True)[0] == {0: B1}


def test_a_bookie_that_says_it_is_read_only_takes_no_place() -> None:
    """Its registration may not say so yet."""
    chosen, rejected = found([*ENSEMBLE, B4], 0, alive=[B4], read_only=[B4])
    assert (chosen, rejected["b4"]) == ({}, NOT_WRITABLE)


def test_every_bookie_that_cannot_be_used_is_named_with_the_reason() -> None:
    chosen, rejected = found([*ENSEMBLE, B4], 0, 1, alive=[B2])
    assert chosen == {1: B2}
    assert rejected[str(B4)] == rejected[str(B1)] != ""
    assert rejected["b3"] == "is in the ensemble"


def test_why_a_bookie_failed_is_not_covered_by_where_it_stands() -> None:
    chosen, rejected = found(ENSEMBLE, 0, alive=ENSEMBLE)
    assert chosen == {0: B1}
    assert rejected == {"b1": "gone", "b2": "is in the ensemble", "b3": "is in the ensemble"}


async def registered_in(store: MemoryStore, bookies: Sequence[BookieRef]) -> list[Registration]:
    registrations = [Registration(bookie, f"{bookie.bookie_id}:3181") for bookie in bookies]
    for registration in registrations:
        await store.create(registration.key, registration.encode())
    return registrations


async def test_a_hung_bookie_is_not_waited_for_alone_and_costs_the_next_search_nothing() -> None:
    """It accepts connections and never answers."""
    store = MemoryStore()
    spares = [BookieRef(f"s{n}", f"i{n}") for n in range(1, 7)]
    hung, alive = spares[:5], spares[5:]
    candidates = await registered_in(store, spares)
    bookies = Answering(alive, (), hung)
    cluster = Cluster(store, LedgerStore(store), bookies, ClientConfig(), random.Random(0))
    began = asyncio.get_running_loop().time()
    for _ in spares:
        bookies.asked.clear()
        found = await choose_alive(cluster, candidates, 1, (), {})
        assert [one.bookie for one in found] == alive
    assert asyncio.get_running_loop().time() - began < SEARCH_SECONDS_MAX
    assert bookies.asked == alive, "those that hang are remembered"
    assert not {asyncio.current_task()} ^ asyncio.all_tasks()


@pytest.mark.parametrize("seed", range(4))
async def test_bookies_that_were_heard_just_now_are_chosen_unasked_also_beside_one_that_hangs(
    seed: int,
) -> None:
    """The one that hangs is waited for only until another takes its place."""
    store = MemoryStore()
    candidates = await registered_in(store, [B1, B2, B3, B4])
    bookies = Answering([], (), [B1])
    bookies.heard = {B2, B3, B4}
    cluster = Cluster(store, LedgerStore(store), bookies, ClientConfig(), random.Random(seed))
    async with asyncio.timeout(SEARCH_SECONDS_MAX):
        found = await choose_alive(cluster, candidates, 3, (), {})
    assert {one.bookie for one in found} == bookies.heard
    assert set(bookies.asked) <= {B1}


async def test_places_of_failed_bookies_that_hang_are_looked_at_beside_each_other() -> None:
    store = MemoryStore()
    await registered_in(store, ENSEMBLE)
    cluster = Cluster(
        store, LedgerStore(store), Answering([B3], (), [B1, B2]), ClientConfig(), random.Random(0)
    )
    for bookie in (B1, B2):
        cluster.note_failure(bookie)
    began = asyncio.get_running_loop().time()
    chosen, rejected = await find_replacements(
        cluster, FindReplacements(ENSEMBLE, {0: "hangs", 1: "hangs"}), 3
    )
    assert asyncio.get_running_loop().time() - began < 1.8 * REMEMBERED_SECONDS_MAX
    assert chosen == {}
    assert {str(B1), str(B2)} <= rejected.keys()


@pytest.mark.parametrize("seed", range(10))
def test_a_replacement_comes_from_a_rack_where_no_staying_bookie_stands(seed: int) -> None:
    """The failed one's own rack is free again."""
    racks = {B1: "/r1", B2: "/r2", B3: "/r3", B4: "/r2", B5: "/r3", B6: "/r1"}

    async def scenario() -> dict[int, BookieRef]:
        store = MemoryStore()
        for bookie, rack in racks.items():
            registration = Registration(bookie, f"{bookie.bookie_id}:3181", rack)
            await store.create(registration.key, registration.encode())
        bookies: BookieClient = Answering(list(racks), ())
        cluster = Cluster(store, LedgerStore(store), bookies, ClientConfig(), random.Random(seed))
        return (await find_replacements(cluster, FindReplacements(ENSEMBLE, {0: "gone"}), 3))[0]

    assert run(scenario()) == {0: B6}


RACKS = {B1: "/r1", B2: "/r2", B3: "/r2", B4: "/r2", B5: "/r1"}


@pytest.mark.parametrize(
    ("domains_min", "spares", "failed_lately", "chosen"),
    [
        (1, (B4,), None, {0: B4}),  # all in one rack, rather than a copy less
        (2, (B4,), None, {}),
        (2, (B4, B5), None, {0: B5}),
        (2, (B4, B5), B5, {0: B5}),  # there is no other of its rack
        (1, (B4, B5), B5, {0: B4}),
        (3, (B4, B5), None, {0: B5}),  # no worse than it was
    ],
)
def test_no_bookie_is_taken_that_leaves_copies_on_too_few_fault_domains(
    domains_min: int,
    spares: tuple[BookieRef, ...],
    failed_lately: BookieRef | None,
    chosen: dict[int, BookieRef],
) -> None:
    async def scenario() -> tuple[dict[int, BookieRef], dict[str, str]]:
        store = MemoryStore()
        for bookie in (B1, B2, B3, *spares):
            registration = Registration(bookie, f"{bookie.bookie_id}:3181", RACKS[bookie])
            await store.create(registration.key, registration.encode())
        cluster = Cluster(
            store, LedgerStore(store), Answering([B2, B3, *spares], ()), ClientConfig(), random.Random(1)
        )
        if failed_lately is not None:
            cluster.note_failure(failed_lately)
        effect = FindReplacements((B1, B2, B3), {0: "gone"})
        return await find_replacements(cluster, effect, 3, domains_min=domains_min)

    found, rejected = run(scenario())
    assert found == chosen
    if not chosen:
        assert "fewer than 2 fault domains" in rejected[str(B4)]


@pytest.mark.parametrize("seed", range(10))
def test_several_replacements_stand_in_the_order_that_spreads_every_write_set(seed: int) -> None:
    """Of a striped ensemble, neighbours share entries."""
    racks = {B1: "/r1", B2: "/r1", B3: "/r2", B4: "/r2", B5: "/r1", B6: "/r2"}

    async def scenario() -> dict[int, BookieRef]:
        store = MemoryStore()
        for bookie, rack in racks.items():
            registration = Registration(bookie, f"{bookie.bookie_id}:3181", rack)
            await store.create(registration.key, registration.encode())
        cluster = Cluster(
            store, LedgerStore(store), Answering(list(racks), ()), ClientConfig(), random.Random(seed)
        )
        effect = FindReplacements((B1, B2, B3, B4), {1: "gone", 2: "gone"})
        return (await find_replacements(cluster, effect, 2))[0]

    assert run(scenario()) == {1: B6, 2: B5}
