"""What the simulated disk may do to a log, one thing at a time, and how it is looked at from outside."""

from __future__ import annotations

import errno
from random import Random

import pytest

from bookie.log import segment_files
from bookie.log.format import position_of, record_bytes
from tests.bookie.durable_records import DurableRecords, is_durable
from tests.bookie.logs import found_in, record_of, write_all
from tests.bookie.simulated_disk import Loss, SimulatedDisk

FIRST = segment_files.name_of(0)
RECORDS = [record_of(1, [n]) for n in range(4)]
RECORD_BYTES = record_bytes(RECORDS[0])
PLACES = [position_of(0, 64 + n * RECORD_BYTES) for n in range(4)]


def log_of_four_records(seed: int = 0) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed))
    write_all(disk, RECORDS)
    return disk


def test_an_ordered_crash_tears_only_the_operation_it_meets() -> None:
    """A file is as it was after its first so many operations, and a part of the next."""
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        file = disk.create("f")
        disk.sync_directory()
        for n, data in enumerate((b"aaaa", b"bbbb", b"cccc")):
            file.write([data], 4 * n)
        disk.crash(Loss.ORDERED)
        assert b"aaaabbbbcccc".startswith(disk.contents()["f"])


@pytest.mark.parametrize("loss", Loss)
def test_a_crash_takes_nothing_that_was_synced_and_puts_garbage_nowhere_else(loss: Loss) -> None:
    for seed in range(60):
        disk = log_of_four_records(seed)
        before = disk.contents()[FIRST]
        disk.open(FIRST).write([b"x" * 600], len(before))
        disk.crash(loss)
        assert disk.contents()[FIRST].startswith(before)


def test_what_a_failed_sync_should_have_saved_is_gone_though_the_next_sync_succeeds() -> None:
    disk = log_of_four_records()
    file, end = disk.open(FIRST), len(disk.contents()[FIRST])
    file.write([b"x" * 8], end)
    disk.fail_sync_after(0, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="broken"):
        file.datasync()
    file.datasync()
    assert file.read(8, end) == b"x" * 8
    disk.crash(Loss.ORDERED)
    assert b"x" not in disk.contents()[FIRST][end:]


def test_the_durable_records_are_found_behind_damage_too() -> None:
    disk = log_of_four_records()
    disk.rot(FIRST, 64 + RECORD_BYTES + 20, b"?")
    assert list(DurableRecords(disk)) == [(PLACES[n], RECORDS[n]) for n in (0, 2, 3)]


def test_what_is_written_and_not_synced_is_not_durable() -> None:
    disk = log_of_four_records()
    (*_, last) = found_in(disk)
    data = disk.open(FIRST).read(RECORD_BYTES, last.position & 0xFFFFFFFF)
    disk.rot(FIRST, last.position & 0xFFFFFFFF, bytes(RECORD_BYTES))
    disk.open(FIRST).write([data], last.position & 0xFFFFFFFF)
    assert is_durable(disk, RECORDS[0], PLACES[0], RECORD_BYTES)
    assert not is_durable(disk, RECORDS[3], PLACES[3], RECORD_BYTES)
