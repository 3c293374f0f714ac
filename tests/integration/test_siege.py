"""Strangers do their worst to real bookies: nothing ends, memory stays bounded, and what a writer was told is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.siege.attacks import Stranger
from tests.siege.run import BOOKIES, MEMORY_MIB_MAX, play


@pytest.mark.long
@pytest.mark.parametrize("tls", [False, True], ids=["plain text", "TLS"])
def test_a_writer_goes_on_while_strangers_besiege_its_bookies(tmp_path: Path, *, tls: bool) -> None:
    """How much it keeps of its throughput depends on the machine: `make siege`."""
    came = asyncio.run(play(tmp_path, 15.0, nice=0, tls=tls))
    assert came["bookies_alive"] == BOOKIES
    assert came["memory_mib_max"] <= MEMORY_MIB_MAX
    assert came["entries_read"] == came["entries_confirmed"] > 0
    assert came["besieged"]["appends_per_second"] > 0
    assert came["attacks"], "nobody came"


def test_every_attack_there_is_takes_part() -> None:
    stranger = Stranger("127.0.0.10", "127.0.0.1:1", 0, b"")
    made = {name for name, value in vars(Stranger).items() if asyncio.iscoroutinefunction(value)}
    assert {attack.__name__ for attack in stranger.attacks()} == {
        name for name in made if not name.startswith("_")
    }
