"""Choosing bookies: spread over fault domains, then hosts; failed ones last."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.placement import arranged, choose, fewest_domains, host_of
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration


def bookie(name: str, domain: str = "", host: str | None = None) -> Registration:
    return Registration(BookieRef(name, f"i-{name}"), f"{host or name}:3181", domain)


def names(chosen: list[Registration]) -> set[str]:
    return {str(registration.bookie) for registration in chosen}


def test_fault_domains_come_before_hosts() -> None:
    candidates = [
        bookie("a1", "a"),
        bookie("a2", "a"),
        bookie("a3", "a"),
        bookie("b1", "b"),
        bookie("c1", "c"),
    ]
    for seed in range(50):
        chosen = choose(candidates, 3, rng=random.Random(seed))
        assert {registration.fault_domain for registration in chosen} == {"a", "b", "c"}


def test_hosts_are_spread_where_there_are_no_domains() -> None:
    candidates = [
        bookie("a", host="h1"),
        bookie("b", host="h1"),
        bookie("c", host="h1"),
        bookie("d", host="h2"),
    ]
    for seed in range(50):
        assert "d" in names(choose(candidates, 2, rng=random.Random(seed)))


def test_a_replacement_goes_where_the_others_are_not() -> None:
    beside = [bookie("a1", "a"), bookie("b1", "b")]
    candidates = [bookie("a2", "a"), bookie("b2", "b"), bookie("c2", "c")]
    for seed in range(20):
        assert names(choose(candidates, 1, beside=beside, rng=random.Random(seed))) == {"c2"}


def test_bookies_that_failed_lately_are_taken_only_when_nothing_else_is_left() -> None:
    candidates = [bookie("a"), bookie("b"), bookie("c")]
    avoid = [candidates[0].bookie, candidates[1].bookie]
    for seed in range(20):
        assert names(choose(candidates, 1, avoid=avoid, rng=random.Random(seed))) == {"c"}
        assert len(choose(candidates, 3, avoid=avoid, rng=random.Random(seed))) == 3


def test_a_new_incarnation_of_a_failed_bookie_is_not_avoided() -> None:
    candidates = [bookie("a"), bookie("b")]
    avoid = [BookieRef("a", "an earlier life"), candidates[1].bookie]
    assert names(choose(candidates, 1, avoid=avoid, rng=random.Random(1))) == {"a"}


@pytest.mark.parametrize("seed", range(10))
def test_of_equals_the_near_one_comes_first_unless_it_failed_or_stands_worse(seed: int) -> None:
    candidates = [bookie("a", "/r1"), bookie("b", "/r2"), bookie("c", "/r2")]
    near, rng = candidates[2].bookie, random.Random(seed)
    assert names(choose(candidates, 1, near=near, rng=rng)) == {"c"}
    assert "c" not in names(choose(candidates, 1, near=near, avoid=[near], rng=rng))
    assert names(choose(candidates, 1, near=near, beside=[bookie("d", "/r2")], rng=rng)) == {"a"}


def test_too_few_candidates_give_what_there_is() -> None:
    assert choose([], 3, rng=random.Random(0)) == []
    assert len(choose([bookie("a")], 3, rng=random.Random(0))) == 1
    assert choose([bookie("a")], 0, rng=random.Random(0)) == []


def test_every_bookie_of_equal_standing_is_chosen_at_times() -> None:
    candidates = [bookie(name) for name in "abcde"]
    seen = [names(choose(candidates, 1, rng=random.Random(seed))) for seed in range(100)]
    assert set().union(*seen) == set("abcde")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=8),
    st.integers(0, 9),
    st.integers(),
)
def test_nobody_is_chosen_twice_and_chance_decides_repeatably(
    places: list[tuple[str, str]], count: int, seed: int
) -> None:
    candidates = [bookie(f"b{n}", domain, host) for n, (domain, host) in enumerate(places)]
    chosen = choose(candidates, count, rng=random.Random(seed))
    assert len(names(chosen)) == len(chosen) == min(count, len(candidates))
    assert chosen == choose(candidates, count, rng=random.Random(seed))


DOMAINS = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=6)


@given(DOMAINS, st.integers(1, 6))
def test_no_order_spreads_every_write_set_wider_than_the_one_that_is_made(
    domains: list[str], write_quorum: int
) -> None:
    """Against all orders."""
    write_quorum = min(write_quorum, len(domains))
    chosen = [bookie(f"b{n}", domain) for n, domain in enumerate(domains)]
    order = arranged(chosen, write_quorum)
    assert names(order) == names(chosen)
    widest = max(fewest_domains(one, write_quorum) for one in permutations(chosen))
    assert fewest_domains(order, write_quorum) == widest


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(),
)
def test_no_other_ensemble_spreads_wider_than_the_one_that_is_chosen(
    domains: list[str], ensemble_size: int, write_quorum: int, seed: int
) -> None:
    """Against all ensembles of all candidates."""
    ensemble_size = min(ensemble_size, len(domains))
    write_quorum = min(write_quorum, ensemble_size)
    candidates = [bookie(f"b{n}", domain) for n, domain in enumerate(domains)]
    chosen = arranged(choose(candidates, ensemble_size, rng=random.Random(seed)), write_quorum)
    widest = max(fewest_domains(one, write_quorum) for one in permutations(candidates, ensemble_size))
    assert fewest_domains(chosen, write_quorum) == widest


@pytest.mark.parametrize("size", [7, 9, 12, 20])
def test_large_ensembles_of_two_halves_alternate(size: int) -> None:
    chosen = [bookie(f"b{n}", "a" if n < size // 2 else "b") for n in range(size)]
    order = [one.fault_domain for one in arranged(chosen, 2)]
    alone = sum(one == other for one, other in zip(order, order[1:] + order[:1], strict=True))
    assert alone == size % 2


def test_bookies_without_a_domain_count_as_one_together() -> None:
    assert fewest_domains([bookie("a"), bookie("b")], 2) == 1
    assert fewest_domains([bookie("a"), bookie("b", "b")], 2) == 2


def test_the_host_of_an_address_is_what_stands_before_its_port() -> None:
    assert host_of(bookie("a", host="[::1]")) == "[::1]"
    assert host_of(bookie("a", host="10.0.0.1")) == "10.0.0.1"


def on_disk(name: str, free_gib: int) -> Registration:
    return replace(bookie(name), disk_bytes_total=8 << 30, disk_bytes_free=free_gib << 30)


@pytest.mark.parametrize(
    ("candidates", "least"),
    [
        ([on_disk("a", 4), bookie("b")], 400),
        ([on_disk("a", 1), on_disk("b", 1)], 350),
        ([on_disk("a", 1), on_disk("b", 3)], 600),
        ([on_disk("a", 1), on_disk("b", 0)], 0),
    ],
    ids=["one has not told of its disk yet", "as much room", "three times the room", "no room"],
)
def test_bookies_with_more_room_are_chosen_more_often(candidates: list[Registration], least: int) -> None:
    """In proportion: of a thousand choices between two."""
    rng = random.Random(7)
    chosen = [names(choose(candidates, 1, rng=rng)) for _ in range(1000)].count({"b"})
    assert least <= chosen <= least + 300
