"""Real processes in chaos: nothing that was confirmed is lost, and in the end no copy is missing."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.chaos.run import run

SEED = 7
SEEDS = 10**6


@pytest.mark.long
def test_a_short_chaos_over_sqlite_leaves_every_copy_in_its_place(tmp_path: Path) -> None:
    came_of_it(tmp_path, SEED, seconds=15, with_etcd=False)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_minutes_of_chaos_over_etcd_leave_every_copy_in_its_place(tmp_path: Path) -> None:
    came_of_it(tmp_path, secrets.randbelow(SEEDS), seconds=300, with_etcd=True)


def came_of_it(tmp_path: Path, seed: int, *, seconds: float, with_etcd: bool) -> None:
    print(f"repeat it with: make chaos SEED={seed}")
    found = run(seconds, seed, tmp_path, with_etcd=with_etcd)
    print(found)
    assert found["copies_missing"] == 0 and found["entries_confirmed"] > 0
