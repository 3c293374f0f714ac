"""W9: which bookies stand in the ensemble of a new ledger where too few live.

What the writer does with one that is absent, and what the record says then: ledgers/protocol/test_absent_bookies.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from ledgers.bookies import ensembles
from ledgers.bookies.ensembles import first_fragment
from ledgers.bookies.health_probes import NOT_WRITABLE
from ledgers.cluster import BEGUN_WITHOUT_SECONDS_MIN, Cluster
from ledgers.config import ClientConfig
from ledgers.creating.new_ledger import NewLedger
from ledgers.errors import NotEnoughBookies
from ledgers.writing import creation
from ledgers.writing.creation import create_record
from metadata import keys, placement
from metadata.healing import absent_bookies, operator_requests
from metadata.healing.absent_bookies import Absence
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryStore
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef, Fragment, Shape
from metadata.store import PAGE_KEYS_MAX, Page
from tests.support.aio import cancel, run

from .answering import Answering, cluster_on, registers

THREE = Shape(3, 3, 2)
NOT_REGISTERED = "is not registered: stopped, or cut off from the metadata"


def ref(name: str) -> BookieRef:
    return BookieRef(name, f"i-{name}")


@dataclass(frozen=True, kw_only=True)
class State:
    """A cluster of bookies by name. All that are `formatted` have cookies; those of `registered` are registered."""

    formatted: str = "b1 b2 b3"
    registered: str = "b1 b2"
    hung: str = ""
    starting: str = ""
    read_only: str = ""
    orders: dict[str, OrderKind] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    config: ClientConfig = field(default_factory=ClientConfig)

    async def cluster(self, store: MemoryStore) -> Cluster:
        for name in self.formatted.split():
            await store.create(keys.cookie(name), Cookie("c", name, f"i-{name}").encode())
        for name in self.registered.split():
            domain = self.domains.get(name, "")
            await registers(store, ref(name), domain, writable=name not in self.read_only.split())
        for name, kind in self.orders.items():
            await operator_requests.give(store, Order(name, kind, 1))
        hung = [ref(name) for name in self.hung.split()]
        alive = [ref(name) for name in self.formatted.split() if name not in self.hung.split()]
        answering = Answering(alive, (), hung)
        answering.starting = {ref(name) for name in self.starting.split()}
        return await cluster_on(answering, {}, self.config, store=store)


class Watched(MemoryStore):
    """Tells when bookies are listed for the second, or another, time."""

    def __init__(self, listings: int = 2) -> None:
        super().__init__()
        self.looked_again = asyncio.Event()
        self._listings_wanted = listings
        self._listings = 0

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        if prefix == keys.BOOKIES:
            self._listings += 1
            if self._listings == self._listings_wanted:
                self.looked_again.set()
        return await super().list_page(prefix, after=after, limit=limit)


def created(state: State, shape: Shape = THREE) -> Fragment:
    async def scenario() -> Fragment:
        store = MemoryStore()
        return await first_fragment(await state.cluster(store), shape)

    return run(scenario())


def absent_of(fragment: Fragment) -> set[str]:
    """Names of the bookies that lack everything; the others must lack nothing."""
    assert all(lack.is_everything for lack in fragment.lacking)
    return {fragment.ensemble[lack.position].bookie_id for lack in fragment.lacking}


def refused(state: State, shape: Shape = THREE) -> NotEnoughBookies:
    with pytest.raises(NotEnoughBookies) as refusal:
        created(state, shape)
    return refusal.value


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "REGISTRATION_SECONDS_MAX", 0.0)


def test_W9_a_formatted_bookie_that_is_not_registered_stands_in_the_ensemble_and_lacks_everything() -> None:
    fragment = created(State())
    assert {bookie.bookie_id for bookie in fragment.ensemble} == {"b1", "b2", "b3"}
    assert absent_of(fragment) == {"b3"}


async def test_W9_one_that_hangs_within_its_lease_is_absent_too_and_is_not_waited_for() -> None:
    state = State(registered="b1 b2 b3", hung="b3")
    cluster = await state.cluster(MemoryStore())
    async with asyncio.timeout(5):  # its probe would take a minute
        assert absent_of(await first_fragment(cluster, THREE)) == {"b3"}
    assert ref("b3") in cluster.failed_lately()


def test_W9_one_that_is_full_is_absent_too() -> None:
    assert absent_of(created(State(registered="b1 b2 b3", read_only="b2"))) == {"b2"}


def test_W9_the_living_are_preferred() -> None:
    fragment = created(State(formatted="b1 b2 b3 b4 b5", registered="b1 b3 b5"))
    assert {bookie.bookie_id for bookie in fragment.ensemble} == {"b1", "b3", "b5"}
    assert fragment.lacking == ()


def test_W9_of_the_absent_those_that_are_registered_are_preferred() -> None:
    """One that hangs for a moment is back sooner than one that is dead."""
    assert absent_of(created(State(formatted="b1 b2 b3 b4", registered="b2 b3 b4", hung="b4"))) == {"b4"}


@pytest.mark.parametrize("kind", [OrderKind.DRAIN, OrderKind.GIVEN_UP])
@pytest.mark.usefixtures("no_waiting")
def test_W9_a_bookie_that_leaves_the_cluster_stands_in_no_new_ensemble(kind: OrderKind) -> None:
    error = refused(State(orders={"b3": kind}))
    assert sorted(error.usable) == ["b1", "b2"]


def test_W9_one_in_maintenance_comes_back_and_may_stand_in_an_ensemble() -> None:
    assert absent_of(created(State(orders={"b3": OrderKind.MAINTENANCE}))) == {"b3"}


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(
    ("shape", "registered"),
    [
        (Shape(3, 3, 2), "b1"),
        (Shape(3, 3, 3), "b1 b2"),
        (Shape(3, 2, 2), "b1 b2"),
        (Shape(5, 3, 2), "b1 b2 b3"),
        (Shape(4, 2, 1), "b1"),
    ],
)
def test_W9_without_an_ack_quorum_of_living_ones_in_every_write_set_there_is_no_ledger(
    shape: Shape, registered: str
) -> None:
    error = refused(State(formatted="b1 b2 b3 b4 b5", registered=registered), shape)
    assert sorted(error.usable) == registered.split()
    assert error.reasons["b5"] == NOT_REGISTERED


@pytest.mark.parametrize(
    ("shape", "registered"),
    [
        (Shape(5, 3, 2), "b1 b2 b3 b4"),
        (Shape(4, 2, 1), "b1 b2"),
        (Shape(5, 5, 3), "b1 b2 b3"),
        (Shape(5, 4, 2), "b2 b4 b5"),
    ],
)
def test_W9_absent_bookies_are_spread_so_that_every_write_set_has_its_quorum(
    shape: Shape, registered: str
) -> None:
    fragment = created(State(formatted="b1 b2 b3 b4 b5", registered=registered), shape)
    lives = [bookie.bookie_id in registered.split() for bookie in fragment.ensemble]
    for first in range(shape.ensemble_size):
        assert sum((lives * 2)[first : first + shape.write_quorum]) >= shape.ack_quorum


def test_gaps_are_counted_as_they_are_spread() -> None:
    """Every shape up to eight bookies: as many gaps as are allowed leave each write set its quorum, one more does not
    wherever it stands."""
    for size in range(1, 9):
        for writes in range(1, size + 1):
            for acks in range(1, writes + 1):
                count = placement.gaps_max(size, writes, acks)
                order = placement.with_gaps([True] * (size - count), [False] * count, size)
                runs = [sum((order * 2)[first : first + writes]) for first in range(size)]
                assert min(runs) >= acks, (size, writes, acks)
                assert count == size - acks or -(-writes * (count + 1) // size) > writes - acks


@pytest.mark.usefixtures("no_waiting")
def test_who_requires_all_bookies_gets_no_ledger_without_them() -> None:
    error = refused(State(config=ClientConfig(require_all_bookies=True)))
    assert str(error).startswith(
        "not enough bookies for a new ledger of ensemble size 3: b1: usable; b2: usable; b3:"
    )


@pytest.mark.usefixtures("no_waiting")
def test_an_absent_bookie_is_in_no_fault_domain() -> None:
    wanted = ClientConfig(fault_domains_min=2)
    two = State(domains={"b1": "/r1", "b2": "/r2"}, config=wanted)
    assert absent_of(created(two)) == {"b3"}
    one = State(domains={"b1": "/r1", "b2": "/r1"}, config=wanted)
    assert "copies in 2 fault domains, of which these cover 1" in str(refused(one))


@pytest.mark.usefixtures("no_waiting")
def test_the_refusal_names_formatted_bookies_that_are_not_registered() -> None:
    reasons = refused(State(registered="b1")).reasons
    assert reasons == {"b2": NOT_REGISTERED, "b3": NOT_REGISTERED}


@pytest.mark.parametrize("orders", [{}, {"b3": OrderKind.DRAIN}, {"b3": OrderKind.GIVEN_UP}])
def test_where_enough_live_the_refusal_says_that_too_few_are_there_to_stand_in_the_ensemble(
    orders: dict[str, OrderKind],
) -> None:
    state = State(formatted="b1 b2 b3" if orders else "b1 b2", orders=orders)
    assert str(refused(state)).startswith(
        "not enough bookies for a new ledger of ensemble size 3, of which 2 must be live, and the others "
        "formatted and staying; it needs 3 bookies, and this cluster has 2 eligible ones: b1: usable; b2: usable"
    )


@pytest.mark.parametrize("before", [(), ("b1",)])
def test_a_creation_waits_for_formatted_bookies_to_register_again(before: Collection[str]) -> None:
    """The metadata was away for longer than the leases: in the second in which it is back nobody is registered."""

    async def scenario() -> Fragment:
        store = Watched()
        cluster = await State(registered=" ".join(before)).cluster(store)
        creating = asyncio.create_task(first_fragment(cluster, THREE))
        await store.looked_again.wait()
        assert not creating.done()
        for name in {"b1", "b2", "b3"} - set(before):
            await registers(store, ref(name))
        return await creating

    fragment = run(scenario())
    assert {bookie.bookie_id for bookie in fragment.ensemble} == {"b1", "b2", "b3"}


@pytest.mark.parametrize("serving", [(), ("b1",)])
def test_a_creation_waits_for_registered_bookies_to_have_read_their_logs(serving: Collection[str]) -> None:
    async def scenario() -> tuple[Fragment, Collection[BookieRef]]:
        store = Watched()
        cluster = await State(registered="b1 b2 b3").cluster(store)
        assert isinstance(cluster.bookies, Answering)
        cluster.bookies.starting = {ref(name) for name in {"b1", "b2", "b3"} - set(serving)}
        creating = asyncio.create_task(first_fragment(cluster, THREE))
        await store.looked_again.wait()
        assert not creating.done()
        cluster.bookies.starting.clear()
        return await creating, cluster.failed_lately()

    fragment, failed = run(scenario())
    assert {bookie.bookie_id for bookie in fragment.ensemble} == {"b1", "b2", "b3"}
    assert fragment.lacking == () and not failed


def test_one_that_starts_is_absent_where_enough_others_live_and_is_not_waited_for() -> None:
    assert absent_of(created(State(registered="b1 b2 b3", starting="b3"))) == {"b3"}


def test_a_creation_that_bookies_which_start_could_not_complete_does_not_wait_for_them() -> None:
    drained = State(
        registered="b1 b2 b3", starting="b2 b3", orders=dict.fromkeys(("b2", "b3"), OrderKind.DRAIN)
    )
    too_few = State(registered="b1", starting="b1", orders=dict.fromkeys(("b2", "b3"), OrderKind.GIVEN_UP))

    async def seconds(state: State) -> float:
        cluster = await state.cluster(MemoryStore())
        began = asyncio.get_running_loop().time()
        with pytest.raises(NotEnoughBookies) as refusal:
            await first_fragment(cluster, THREE)
        assert "it reads its log" in refusal.value.reasons.values()
        return asyncio.get_running_loop().time() - began

    for state in (drained, too_few):
        assert run(seconds(state)) < ensembles.REGISTRATION_SECONDS_MAX


def test_a_creation_waits_for_starting_bookies_no_longer_than_for_those_that_are_to_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ensembles, "REGISTRATION_SECONDS_MAX", 0.5)
    error = refused(State(registered="b1 b2 b3", starting="b1 b2 b3"))
    assert error.reasons == {str(ref(name)): "it reads its log" for name in ("b1", "b2", "b3")}


@pytest.mark.parametrize("kind", list(OrderKind))
async def test_it_does_not_wait_for_bookies_that_will_not_register_in_a_moment(kind: OrderKind) -> None:
    orders = {"b2": kind, "b3": kind}
    cluster = await State(registered="b1", orders=orders).cluster(MemoryStore())
    began = asyncio.get_running_loop().time()
    with pytest.raises(NotEnoughBookies):
        await first_fragment(cluster, THREE)
    assert asyncio.get_running_loop().time() - began < ensembles.REGISTRATION_SECONDS_MAX


async def test_it_does_not_wait_for_one_that_has_been_absent_for_longer_than_a_restart_takes() -> None:
    """As auditors have counted: what passes while the metadata is away does not count."""

    async def seconds(incarnation: str, absent_ms: int) -> float:
        store = MemoryStore()
        cluster = await State().cluster(store)
        await absent_bookies.note(store, Absence("b3", incarnation, 0, absent_ms))
        began = asyncio.get_running_loop().time()
        with pytest.raises(NotEnoughBookies) as refusal:
            await first_fragment(cluster, Shape(3, 2, 2))
        assert refusal.value.reasons == {"b3": NOT_REGISTERED}
        return asyncio.get_running_loop().time() - began

    whole = ensembles.REGISTRATION_SECONDS_MAX
    waited = await asyncio.gather(
        seconds("i-b3", absent_bookies.RESTART_MS),
        seconds("i-b3", absent_bookies.RESTART_MS - 1),
        seconds("formatted anew since", absent_bookies.RESTART_MS),
    )
    assert [took >= whole for took in waited] == [False, True, True]


def test_whoever_waits_for_bookies_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = Watched(listings=4)
        creating = asyncio.create_task(first_fragment(await State(registered="").cluster(store), THREE))
        await store.looked_again.wait()
        await cancel(creating)

    with caplog.at_level(logging.INFO, ensembles.log.name):
        run(scenario())
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "waiting for bookies to register or to start"
    ]


def test_a_client_warns_of_one_ledger_in_ten_seconds_that_begins_without_a_bookie_and_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        cluster, loop = await State().cluster(MemoryStore()), asyncio.get_running_loop()

        async def create() -> None:
            await create_record(cluster, NewLedger(), reserved=False, encryption_key=None)

        for _ in range(3):
            await create()
        before, pause = loop.time, BEGUN_WITHOUT_SECONDS_MIN
        loop.time = lambda: before() + pause  # type: ignore[method-assign]
        await create()

    run(scenario())
    without = "begins without bookie b3, which does not answer or currently accepts no entries"
    assert [record.message for record in caplog.records if record.name == creation.log.name] == [
        f"ledger 1 {without}",
        f"ledger 4 {without} (2 more ledgers before it were not logged)",
    ]


def test_it_does_not_wait_where_too_few_are_formatted() -> None:
    error = refused(State(formatted="b1 b2", registered="b1 b2"), Shape(5, 5, 3))
    assert NOT_WRITABLE not in error.reasons.values()
    needed = (
        "5, of which 3 must be live; it needs 5 bookies, and this cluster has 2 eligible ones: b1: usable"
    )
    assert needed in str(error)
