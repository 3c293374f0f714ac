"""The bookies of a new ledger: every write set on as many fault domains as can be, or none where a policy says so."""

from __future__ import annotations

import random

import pytest

from bookie.wire.data.in_process import OwnBookie
from ledgers.bookies.ensembles import first_fragment
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import NotEnoughBookies
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from tests.support.aio import run

from .test_replacements import Answering


def chosen(
    domains: dict[str, str],
    shape: Shape,
    *,
    domains_min: int = 1,
    seed: int = 1,
    failed: str = "",
    own: str = "",
) -> list[str]:
    """The fault domains of the ensemble, in its order.

    `failed`: the bookie that failed lately, and answers again; `own`: that of the client's process.
    """

    async def scenario() -> list[str]:
        store = MemoryStore()
        refs = [BookieRef(name, f"i-{name}") for name in domains]
        for ref in refs:
            registration = Registration(ref, f"{ref.bookie_id}:3181", domains[ref.bookie_id])
            await store.create(registration.key, registration.encode())
        mine = OwnBookie(BookieRef(own, f"i-{own}"), f"{own}:3181", lambda _: None) if own else None
        config = ClientConfig(fault_domains_min=domains_min, own_bookie=mine)
        cluster = Cluster(store, LedgerStore(store), Answering(refs, ()), config, random.Random(seed))
        for ref in refs:
            if ref.bookie_id == failed:
                cluster.note_failure(ref)
        return [domains[ref.bookie_id] for ref in (await first_fragment(cluster, shape)).ensemble]

    return run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_a_striped_ensemble_over_two_racks_has_every_entry_in_both(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2"}
    assert chosen(racks, Shape(4, 2, 2), domains_min=2, seed=seed) in (
        ["/r1", "/r2"] * 2,
        ["/r2", "/r1"] * 2,
    )


def test_no_ledger_is_made_on_fewer_fault_domains_than_are_wanted() -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2"}
    assert sorted(chosen(racks, Shape(3, 3, 2), domains_min=2)) == ["/r1", "/r1", "/r2"]
    with pytest.raises(NotEnoughBookies, match="copies in 3 fault domains, where these have 2"):
        chosen(racks, Shape(3, 3, 2), domains_min=3)


@pytest.mark.parametrize("seed", range(5))
def test_a_policy_counts_more_than_that_the_only_bookie_of_a_domain_failed_lately(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2"}
    assert set(chosen(racks, Shape(2, 2, 2), domains_min=2, seed=seed, failed="b3")) == {"/r1", "/r2"}
    assert set(chosen(racks, Shape(2, 2, 2), seed=seed, failed="b3")) == {"/r1"}, "without one it is avoided"


def test_bookies_without_a_fault_domain_do_not_satisfy_a_policy() -> None:
    with pytest.raises(NotEnoughBookies, match="copies in 2 fault domains, where these have 1"):
        chosen({"b1": "", "b2": "", "b3": ""}, Shape(3, 3, 2), domains_min=2)


@pytest.mark.parametrize("seed", range(5))
def test_the_bookie_of_the_clients_process_is_taken_first_unless_it_failed_lately(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r2", "b3": "/r3"}
    assert chosen(racks, Shape(1, 1, 1), seed=seed, own="b2") == ["/r2"]
    assert "/r2" in chosen(racks, Shape(2, 2, 2), seed=seed, own="b2")
    assert chosen(racks, Shape(1, 1, 1), seed=seed, own="b2", failed="b2") != ["/r2"]
