"""Choosing bookies: spread over fault domains, then hosts; failed ones last."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from metadata.placement import choose, host_of
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


def test_the_host_of_an_address_is_what_stands_before_its_port() -> None:
    assert host_of(bookie("a", host="[::1]")) == "[::1]"
    assert host_of(bookie("a", host="10.0.0.1")) == "10.0.0.1"
