"""Which bookies take the places of failed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from ledgers.bookies.health_probes import NOT_WRITABLE, REMEMBERED_SECONDS_MAX, choose_alive
from ledgers.bookies.replacements import find_replacements
from ledgers.protocol.ledger_effects import FindReplacements
from metadata.records.ledger_record import BookieRef

from .answering import Answering, cluster_on, registers

BK1, BK2, BK3, BK4, BK5, BK6 = (BookieRef(f"b{n}", f"i{n}") for n in range(1, 7))
BK1_ANEW = BookieRef("b1", "formatted anew")
ENSEMBLE = (BK1, BK2, BK3)
SEARCH_SECONDS_MAX = 10.0
NO_RACKS: Mapping[BookieRef, str] = {}


async def found(
    registered: Sequence[BookieRef],
    *failed: int,
    alive: Sequence[BookieRef],
    ensemble: Sequence[BookieRef] = ENSEMBLE,
    write_quorum: int = 3,
    racks: Mapping[BookieRef, str] = NO_RACKS,
    failed_lately: Sequence[BookieRef] = (),
    seed: int = 0,
    read_only: Sequence[BookieRef] = (),
    in_place: bool = False,
    domains_min: int = 1,
) -> tuple[dict[int, BookieRef], dict[str, str]]:
    """Who takes these places, and why others do not."""
    domains = {bookie: racks.get(bookie, "") for bookie in registered}
    cluster = await cluster_on(Answering(alive, read_only), domains, seed=seed)
    for bookie in failed_lately:
        cluster.note_failure(bookie)
    effect = FindReplacements(tuple(ensemble), dict.fromkeys(failed, "gone"), in_place)
    return await find_replacements(cluster, effect, write_quorum, domains_min=domains_min)


async def test_a_spare_bookie_is_preferred_to_the_failed_one_that_is_back() -> None:
    assert (await found([*ENSEMBLE, BK4], 0, alive=[*ENSEMBLE, BK4]))[0] == {0: BK4}


async def test_a_failed_bookie_that_is_back_takes_its_own_place_where_there_is_no_other() -> None:
    assert (await found(ENSEMBLE, 0, alive=ENSEMBLE))[0] == {0: BK1}


async def test_a_bookie_formatted_anew_takes_the_place_of_its_former_self_and_no_other() -> None:
    registered = [BK1_ANEW, BK2, BK3]
    assert (await found(registered, 0, alive=registered))[0] == {0: BK1_ANEW}
    assert (await found(registered, 1, alive=[BK1_ANEW, BK3]))[0] == {}


async def test_in_place_only_the_failed_bookie_itself_is_looked_at() -> None:
    assert (await found([BK1_ANEW, BK2, BK3, BK4], 0, alive=[BK1_ANEW, BK4], in_place=True))[0] == {}
    assert (await found([*ENSEMBLE, BK4], 0, alive=[BK1, BK4], in_place=True))[0] == {0: BK1}


async def test_a_bookie_that_says_it_is_read_only_takes_no_place() -> None:
    """Its registration may not say so yet."""
    chosen, rejected = await found([*ENSEMBLE, BK4], 0, alive=[BK4], read_only=[BK4])
    assert (chosen, rejected["b4"]) == ({}, NOT_WRITABLE)


async def test_every_bookie_that_cannot_be_used_is_named_with_the_reason() -> None:
    chosen, rejected = await found([*ENSEMBLE, BK4], 0, 1, alive=[BK2])
    assert chosen == {1: BK2}
    assert rejected[str(BK4)] == rejected[str(BK1)] != ""
    assert rejected["b3"] == "is in the ensemble"


async def test_why_a_bookie_failed_is_not_covered_by_where_it_stands() -> None:
    chosen, rejected = await found(ENSEMBLE, 0, alive=ENSEMBLE)
    assert chosen == {0: BK1}
    assert rejected == {"b1": "gone", "b2": "is in the ensemble", "b3": "is in the ensemble"}


async def test_a_hung_bookie_is_not_waited_for_alone_and_costs_the_next_search_nothing() -> None:
    """It accepts connections and never answers."""
    spares = [BookieRef(f"s{n}", f"i{n}") for n in range(1, 7)]
    hung, alive = spares[:5], spares[5:]
    bookies = Answering(alive, (), hung)
    cluster = await cluster_on(bookies, {})
    candidates = [await registers(cluster.store, spare) for spare in spares]
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
    bookies = Answering([], (), [BK1])
    bookies.heard = {BK2, BK3, BK4}
    cluster = await cluster_on(bookies, {}, seed=seed)
    candidates = [await registers(cluster.store, one) for one in (BK1, BK2, BK3, BK4)]
    async with asyncio.timeout(SEARCH_SECONDS_MAX):
        found = await choose_alive(cluster, candidates, 3, (), {})
    assert {one.bookie for one in found} == bookies.heard
    assert set(bookies.asked) <= {BK1}


async def test_places_of_failed_bookies_that_hang_are_looked_at_beside_each_other() -> None:
    cluster = await cluster_on(Answering([BK3], (), [BK1, BK2]), dict.fromkeys(ENSEMBLE, ""))
    for bookie in (BK1, BK2):
        cluster.note_failure(bookie)
    began = asyncio.get_running_loop().time()
    chosen, rejected = await find_replacements(
        cluster, FindReplacements(ENSEMBLE, {0: "hangs", 1: "hangs"}), 3
    )
    assert asyncio.get_running_loop().time() - began < 1.8 * REMEMBERED_SECONDS_MAX
    assert chosen == {}
    assert {str(BK1), str(BK2)} <= rejected.keys()


@pytest.mark.parametrize("seed", range(10))
async def test_a_replacement_comes_from_a_rack_where_no_staying_bookie_stands(seed: int) -> None:
    """The failed one's own rack is free again."""
    racks = {BK1: "/r1", BK2: "/r2", BK3: "/r3", BK4: "/r2", BK5: "/r3", BK6: "/r1"}
    assert (await found([*racks], 0, alive=[*racks], racks=racks, seed=seed))[0] == {0: BK6}


RACKS = {BK1: "/r1", BK2: "/r2", BK3: "/r2", BK4: "/r2", BK5: "/r1"}


@pytest.mark.parametrize(
    ("domains_min", "spares", "failed_lately", "chosen"),
    [
        (1, (BK4,), (), {0: BK4}),  # all in one rack, rather than a copy less
        (2, (BK4,), (), {}),
        (2, (BK4, BK5), (), {0: BK5}),
        (2, (BK4, BK5), (BK5,), {0: BK5}),  # there is no other of its rack
        (1, (BK4, BK5), (BK5,), {0: BK4}),
        (3, (BK4, BK5), (), {0: BK5}),  # no worse than it was
    ],
)
async def test_no_bookie_is_taken_that_leaves_copies_on_too_few_fault_domains(
    domains_min: int,
    spares: tuple[BookieRef, ...],
    failed_lately: tuple[BookieRef, ...],
    chosen: dict[int, BookieRef],
) -> None:
    taken, rejected = await found(
        [*ENSEMBLE, *spares],
        0,
        alive=[BK2, BK3, *spares],
        racks=RACKS,
        failed_lately=failed_lately,
        domains_min=domains_min,
    )
    assert taken == chosen
    if not chosen:
        assert "fewer than 2 fault domains" in rejected[str(BK4)]


@pytest.mark.parametrize("seed", range(10))
async def test_several_replacements_stand_in_the_order_that_spreads_every_write_set(seed: int) -> None:
    """Of a striped ensemble, neighbours share entries."""
    racks = {BK1: "/r1", BK2: "/r1", BK3: "/r2", BK4: "/r2", BK5: "/r1", BK6: "/r2"}
    found_there, _ = await found(
        [*racks], 1, 2, alive=[*racks], ensemble=(BK1, BK2, BK3, BK4), write_quorum=2, racks=racks, seed=seed
    )
    assert found_there == {1: BK6, 2: BK5}
