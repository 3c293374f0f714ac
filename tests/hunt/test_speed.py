"""A change is slower where every pair says so, and not where the machine alone differs."""

from __future__ import annotations

import json

from tests.hunt.speed import PAIRS_MIN, Compared, Run, Speed, compare, run_of


def pairs(*ratios: float) -> list[tuple[Run, Run]]:
    """The machine is another one in each pair."""
    rates = [1000.0 * (n + 1) for n in range(len(ratios))]
    return [
        ({"bulk": Speed(rate * ratio, 2.0)}, {"bulk": Speed(rate, 4.0), "gone": Speed(rate, 4.0)})
        for rate, ratio in zip(rates, ratios, strict=True)
    ]


def compared(*ratios: float) -> Compared:
    (one,) = compare(pairs(*ratios))
    return one


def test_what_every_pair_says_is_told() -> None:
    one = compared(*[0.9] * PAIRS_MIN)
    assert one.is_slower
    assert "0.90" in str(one)
    assert str(one).endswith("SLOWER")
    assert one.cpu_ratio == 0.5


def test_one_pair_that_says_otherwise_is_noise_enough_and_so_is_a_little() -> None:
    assert not compared(0.8, 0.8, 1.01, 0.8, 0.8).is_slower
    assert not compared(*[0.99] * PAIRS_MIN).is_slower


def test_the_lines_of_the_bench_are_read() -> None:
    line = {"workload": "bulk", "adds_per_s": 5.0, "client_cpu_us": 1.5, "bookies_cpu_us": 2.0, "p50_ms": 1}
    assert run_of([json.dumps(line)]) == {"bulk": Speed(5.0, 3.5)}
