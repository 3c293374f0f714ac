"""Strangers do their worst to real bookies: nothing ends, memory stays bounded, and what a writer was told is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.siege.attacks import DATA_ATTACKS, Stranger
from tests.siege.fortress import BOOKIES
from tests.siege.http_attacks import HTTP_ATTACKS, HttpStranger
from tests.siege.http_rounds import P50_FACTOR_MAX, P99_FACTOR_MAX, starved
from tests.siege.run import AT_ONCE, MEMORY_MIB_MAX, play


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True], ids=["plain text", "TLS"])
def test_a_writer_goes_on_while_strangers_besiege_its_bookies(tmp_path: Path, *, tls: bool) -> None:
    """How much it keeps of its throughput depends on the machine: `make siege`."""
    came = asyncio.run(play(tmp_path, 30.0, nice=0, tls=tls))
    assert came["bookies_alive"] == BOOKIES
    assert came["memory_mib_max"] <= MEMORY_MIB_MAX
    assert came["entries_read"] == came["entries_confirmed"] > 0
    assert set(came["besieged"]) == set(AT_ONCE)
    assert all(one["appends_per_second"] > 0 for one in came["besieged"].values())
    assert set(came["attacks"]) == {*DATA_ATTACKS, *HTTP_ATTACKS}
    assert set(came["http"]["attacks"]) == set(HTTP_ATTACKS)


def test_what_an_http_attack_may_do_to_an_append_has_a_bound() -> None:
    def beside(p50_factor: float, p99_factor: float) -> dict[str, float]:
        return {"p50_factor": p50_factor, "p99_factor": p99_factor}

    attacks = {
        "none": beside(P50_FACTOR_MAX, P99_FACTOR_MAX),
        "median": beside(P50_FACTOR_MAX + 0.1, 1.0),
        "p99": beside(1.0, P99_FACTOR_MAX + 0.1),
    }
    assert starved({"attacks": attacks}) == ["median", "p99"]


@pytest.mark.parametrize(
    "stranger", [Stranger("127.0.0.10", "127.0.0.1:1", 0, b""), HttpStranger("127.0.0.10", "127.0.0.1:1")]
)
def test_every_attack_there_is_takes_part(stranger: Stranger | HttpStranger) -> None:
    made = {name for name, value in vars(type(stranger)).items() if asyncio.iscoroutinefunction(value)}
    assert {attack.__name__ for attack in stranger.attacks()} == {
        name for name in made if not name.startswith("_")
    }
