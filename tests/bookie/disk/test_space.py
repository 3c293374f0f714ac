"""What free space means, and what is kept back of it (B4)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bookie.disk.reserve import NAME, RELEASE_BYTES_MIN, FileReserve, reserve_size
from bookie.disk.space import SpaceLimit, SpaceWatch

LIMIT = SpaceLimit(free_share_min=0.05, free_bytes_min=10_000)


def test_the_limit_is_a_share_of_a_small_disk_and_bytes_of_a_large_one() -> None:
    assert [LIMIT.bytes(size) for size in (1000, 100_000, 10_000_000)] == [50, 5000, 10_000]


def test_a_disk_below_the_limit_is_read_only_until_there_is_twice_as_much() -> None:
    """It must not flap."""
    watch = SpaceWatch(LIMIT)
    seen = []
    for free in (500, 101, 99, 51, 49, 51, 99, 100, 99):
        watch.observed(1000, free)
        seen.append((watch.is_low, watch.is_read_only))
    fine, low, full = (False, False), (True, False), (True, True)
    assert seen == [fine, fine, low, low, full, full, full, fine, low]


def test_a_write_that_found_no_space_is_believed() -> None:
    watch = SpaceWatch(LIMIT)
    assert watch.filled_up()
    assert watch.is_read_only
    watch.observed(1000, 99)
    assert watch.is_read_only
    watch.observed(1000, 500)
    assert not watch.is_read_only


def test_changes_are_told_once() -> None:
    watch = SpaceWatch(LIMIT)
    assert [watch.observed(1000, free) for free in (500, 400, 99, 98, 10, 9, 500, 500)] == [
        False,
        False,
        True,
        False,
        True,
        False,
        True,
        False,
    ]


def test_a_reserve_takes_its_blocks_and_gives_them_out_bit_by_bit(tmp_path: Path) -> None:
    """What is not needed yet nobody else on the disk can take."""
    reserve = FileReserve(tmp_path, 1_000_000)
    assert reserve.is_touched
    assert reserve.restore() and reserve.restore()
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 1_000_000
    assert not reserve.is_touched
    assert reserve.release(1) and reserve.is_touched
    assert (tmp_path / NAME).stat().st_size == 1_000_000 - RELEASE_BYTES_MIN
    assert reserve.release(900_000)
    assert reserve.release(900_000)
    assert (tmp_path / NAME).stat().st_size == 0
    assert not reserve.release(1)
    assert reserve.restore()


def test_a_reserve_is_found_again_after_a_restart(tmp_path: Path) -> None:
    FileReserve(tmp_path, 1_000_000).restore()
    assert not FileReserve(tmp_path, 1_000_000).is_touched
    FileReserve(tmp_path, 1_000_000).release(1)
    again = FileReserve(tmp_path, 1_000_000)
    assert again.is_touched and again.release(1)


def test_a_reserve_there_is_no_room_for_stays_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    reserve = FileReserve(tmp_path, 4096)
    assert not reserve.restore()
    assert reserve.is_touched and not reserve.release(1)


def test_a_reserve_is_small_beside_its_disk() -> None:
    assert reserve_size(1_000_000, 1_000_000_000) == 1_000_000
    assert reserve_size(1_000_000, 5_000_000) == 100_000
