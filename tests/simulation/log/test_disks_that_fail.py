"""What the simulated disk may do to a log, one thing at a time, and how the second layer looks at it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random

import pytest

from bookie.errors import DamagedLog
from bookie.index.index import Index
from bookie.index.ledger_state import Fence
from bookie.log import segments
from bookie.log.appender import LogAppender
from bookie.log.format import Record, position_of, record_bytes
from bookie.wire import ReadRequest, Status
from tests.bookie.logs import INCARNATION, fence_of, record_of, records_in, use_small_sizes
from tests.bookie.simulated_disk import Loss, SimulatedDisk
from tests.simulation.engine.chance import Stream
from tests.simulation.engine.world import Violation

from .durable import is_durable
from .durable import records_in as durable_records_in
from .life import page_of
from .promises import Promises
from .rot import HOW, is_witnessed, spoil
from .shelf import SHELF
from .storage import Storage

FIRST = segments.name_of(0)
RECORDS = [record_of(1, [n]) for n in range(4)]
RECORD_BYTES = record_bytes(RECORDS[0])
PLACES = [position_of(0, 64 + n * RECORD_BYTES) for n in range(4)]


@pytest.fixture(autouse=True)
def _small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=4096, group=1024, step=1024)


@pytest.fixture
def index() -> Iterator[Index]:
    taken = SHELF.take()
    yield taken
    SHELF.give_back(taken)


def log_on(disk: SimulatedDisk) -> LogAppender:
    return LogAppender(disk, INCARNATION, 0)


def disk_with(*, synced: int, unsynced: int = 0, seed: int = 0) -> SimulatedDisk:
    """So many records, each synced by itself, then others in one group that is not."""
    disk = SimulatedDisk(Random(seed))
    log = log_on(disk)
    for record in RECORDS[:synced]:
        log.append([record])
        log.sync()
    if unsynced:
        log.append(RECORDS[synced : synced + unsynced])
    return disk


def promises_of(disk: SimulatedDisk, count: int) -> Promises:
    promises = Promises("b0", disk)
    for record, position in zip(RECORDS[:count], PLACES, strict=False):
        promises.submitted(record)
        promises.durable(record, position, RECORD_BYTES)
    return promises


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss)
def test_whatever_a_crash_takes_what_was_synced_is_there(loss: Loss) -> None:
    kept: set[int] = set()
    for seed in range(60):
        disk = disk_with(synced=2, unsynced=2, seed=seed)
        disk.crash(loss)
        found = records_in(disk)
        assert found == RECORDS[: len(found)]
        kept.add(len(found))
    assert min(kept) == 2
    assert max(kept) > 2


def test_an_ordered_crash_tears_only_the_operation_it_meets() -> None:
    """A file is as it was after its first so many operations, and a part of the next."""
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        file = disk.create("f")
        disk.sync_directory()
        file.write([b"aaaa"], 0)
        file.write([b"bbbb"], 4)
        file.write([b"cccc"], 8)
        disk.crash(Loss.ORDERED)
        assert b"aaaabbbbcccc".startswith(disk.contents()["f"])


def test_garbage_stands_only_where_something_was_being_written() -> None:
    for seed in range(60):
        disk = disk_with(synced=3, unsynced=1, seed=seed)
        before = disk.durable_contents()[FIRST][: 64 + 3 * RECORD_BYTES]
        disk.crash(Loss.GARBAGE)
        assert disk.contents()[FIRST].startswith(before)


def test_what_a_failed_sync_should_have_saved_is_gone_though_the_next_sync_succeeds() -> None:
    disk = disk_with(synced=1)
    file = disk.open(FIRST)
    file.write([b"x" * 8], 64 + RECORD_BYTES)
    disk.fail_sync_after(0, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="broken"):
        file.datasync()
    file.datasync()
    assert file.read(8, 64 + RECORD_BYTES) == b"x" * 8
    disk.crash(Loss.ORDERED)
    assert b"x" not in disk.contents()[FIRST][64 + RECORD_BYTES :]


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("place", [0, 1])
def test_damage_before_valid_records_refuses_to_start(how: str, place: int) -> None:
    """B2"""
    for seed in range(10):
        disk = disk_with(synced=3)
        spoil(disk, promises_of(disk, 3), PLACES[place], how, Stream(seed))
        with pytest.raises(DamagedLog):
            records_in(disk)


@pytest.mark.parametrize("how", HOW)
def test_damage_behind_the_checkpoint_is_called_damaged_and_nothing_else_is(how: str, index: Index) -> None:
    """R6"""
    disk = disk_with(synced=3)
    promises = promises_of(disk, 3)
    storage = Storage(disk, index, INCARNATION, Silent())
    spoil(disk, promises, PLACES[1], how, Stream(7))
    reply = page_of(storage, ReadRequest(INCARNATION, 1, 0, 9, 10_000))
    assert reply.status is Status.OK
    assert list(reply.columns.ids) == [0, 2]
    assert [(r.first_entry, r.last_entry) for r in reply.damaged] == [(1, 1)]


def test_reads_that_fail_or_come_from_another_place_are_called_damaged(index: Index) -> None:
    """R6, P4"""
    disk = disk_with(synced=3)
    storage = Storage(disk, index, INCARNATION, Silent())
    request = ReadRequest(INCARNATION, 1, 0, 9, 10_000)
    offset = 64 + RECORD_BYTES
    disk.fail_reads(FIRST, offset, offset + RECORD_BYTES)
    assert list(page_of(storage, request).columns.ids) == [0, 2]
    disk.mend_reads()
    disk.misdirect_reads(FIRST, offset, offset + RECORD_BYTES, RECORD_BYTES)
    reply = page_of(storage, request)
    assert list(reply.columns.ids) == [0, 2]
    assert len(reply.damaged) == 1
    disk.mend_reads()
    assert list(page_of(storage, request).columns.ids) == [0, 1, 2]


def test_the_last_group_of_a_log_is_protected_only_once_something_follows_it() -> None:
    """What a later record, segment or checkpoint does not vouch for is cut like a torn tail. Known, and why the
    random schedules damage no such record: a bookie that loses its newest group by rot and starts again before it
    has written anything more, denies entries that it had acknowledged."""
    disk = disk_with(synced=3)
    promises = promises_of(disk, 3)
    assert [is_witnessed(disk, promises, place) for place in PLACES[:3]] == [True, True, False]
    spoil(disk, promises, PLACES[2], "one bit", Stream(1))
    assert records_in(disk) == RECORDS[:2]


# --- looking at a disk ----------------------------------------------------------------------------


def test_the_durable_records_are_found_behind_damage_too() -> None:
    disk = disk_with(synced=4)
    spoil(disk, promises_of(disk, 4), PLACES[1], "a sector", Stream(3))
    found = durable_records_in(FIRST, disk.durable_contents()[FIRST])
    assert list(found) == [(PLACES[n], RECORDS[n]) for n in (0, 2, 3)]


def test_what_is_written_and_not_synced_is_not_durable() -> None:
    """B1"""
    disk = disk_with(synced=1, unsynced=1)
    assert is_durable(disk, RECORDS[0], PLACES[0], RECORD_BYTES)
    assert not is_durable(disk, RECORDS[1], PLACES[1], RECORD_BYTES)
    with pytest.raises(Violation, match="B1"):
        promises_of(disk, 2)


def test_a_wiped_disk_and_anothers_disk_are_refused(index: Index) -> None:
    """R6, W7"""
    disk = disk_with(synced=2)
    with pytest.raises(DamagedLog, match="written by another bookie"):
        Storage(disk, index, "00000000-66b0-4f3e-9d0c-2b1f6f0d8a11", Silent())
    disk.wipe()
    with pytest.raises(Exception, match="no segment"):
        Storage(disk, index, INCARNATION, Silent())


class Silent:
    """Nobody looks on. Implements `storage.Watch`."""

    def submitted(self, record: Record) -> None: ...
    def replayed(self, record: Record, position: int) -> None: ...
    def durable(self, record: Record, position: int, size: int) -> None: ...


def test_a_fence_stands_alone_in_the_log_and_survives_every_crash(index: Index) -> None:
    """R1"""
    disk = SimulatedDisk(Random(0))
    log = log_on(disk)
    log.append([fence_of(77)])
    log.sync()
    for loss in Loss:
        disk.crash(loss)
        storage = Storage(disk, index, INCARNATION, Silent())
        assert storage.state_of(77).fence is Fence.DURABLE
