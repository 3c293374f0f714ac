"""The bookies of a new ledger: every write set on as many fault domains as can be, or none where a policy says so."""

from __future__ import annotations

import pytest

from bookie.wire.data.in_process import OwnBookie
from ledgers.bookies.ensembles import first_fragment
from ledgers.config import ClientConfig
from ledgers.errors import NotEnoughBookies
from metadata.records.ledger_record import BookieRef, Shape

from .answering import Answering, cluster_on


async def chosen(
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
    refs = {BookieRef(name, f"i-{name}"): domain for name, domain in domains.items()}
    mine = OwnBookie(BookieRef(own, f"i-{own}"), f"{own}:3181", lambda _: None) if own else None
    config = ClientConfig(fault_domains_min=domains_min, own_bookie=mine)
    cluster = await cluster_on(Answering([*refs]), refs, config, seed=seed)
    if failed:
        cluster.note_failure(BookieRef(failed, f"i-{failed}"))
    return [refs[ref] for ref in (await first_fragment(cluster, shape)).ensemble]


@pytest.mark.parametrize("seed", range(10))
async def test_a_striped_ensemble_over_two_racks_has_every_entry_in_both(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2", "b4": "/r2"}
    assert await chosen(racks, Shape(4, 2, 2), domains_min=2, seed=seed) in (
        ["/r1", "/r2"] * 2,
        ["/r2", "/r1"] * 2,
    )


async def test_no_ledger_is_made_on_fewer_fault_domains_than_are_wanted() -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2"}
    assert sorted(await chosen(racks, Shape(3, 3, 2), domains_min=2)) == ["/r1", "/r1", "/r2"]
    with pytest.raises(NotEnoughBookies, match="copies in 3 fault domains, of which these cover 2"):
        await chosen(racks, Shape(3, 3, 2), domains_min=3)


@pytest.mark.parametrize("seed", range(5))
async def test_a_policy_counts_more_than_that_the_only_bookie_of_a_domain_failed_lately(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r1", "b3": "/r2"}
    assert set(await chosen(racks, Shape(2, 2, 2), domains_min=2, seed=seed, failed="b3")) == {"/r1", "/r2"}
    assert set(await chosen(racks, Shape(2, 2, 2), seed=seed, failed="b3")) == {"/r1"}, (
        "without one it is avoided"
    )


async def test_bookies_without_a_fault_domain_do_not_satisfy_a_policy() -> None:
    with pytest.raises(NotEnoughBookies, match="copies in 2 fault domains, of which these cover 1"):
        await chosen({"b1": "", "b2": "", "b3": ""}, Shape(3, 3, 2), domains_min=2)


@pytest.mark.parametrize("seed", range(5))
async def test_the_bookie_of_the_clients_process_is_taken_first_unless_it_failed_lately(seed: int) -> None:
    racks = {"b1": "/r1", "b2": "/r2", "b3": "/r3"}
    assert await chosen(racks, Shape(1, 1, 1), seed=seed, own="b2") == ["/r2"]
    assert "/r2" in await chosen(racks, Shape(2, 2, 2), seed=seed, own="b2")
    assert await chosen(racks, Shape(1, 1, 1), seed=seed, own="b2", failed="b2") != ["/r2"]
