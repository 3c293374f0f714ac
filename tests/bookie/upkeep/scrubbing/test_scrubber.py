"""Rot is found before a reader finds it, told, and mended from the other replicas (R6)."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.log import segment_files
from bookie.log.format import RECORD_HEADER, SEGMENT_HEADER, RecordKind, place_of
from bookie.log.manifest import newest
from bookie.offline import rebuild
from bookie.upkeep.collecting.compactor import Compactor
from bookie.upkeep.reports import ScrubReport
from bookie.upkeep.scrubbing import scrubber
from bookie.wire.messages import Status
from metadata.rate_limit import RateLimit
from metadata.records.ledger_record import Shape
from metadata.records.ledger_store import LedgerStore
from tests.bookie.bookies import append
from tests.bookie.entries import frame_of
from tests.bookie.simulated_disk import SimulatedDisk
from tests.bookie.upkeep.replicas import (
    AT_ONCE,
    DictionaryPeers,
    Mended,
    closed_ledger,
    flip,
    flip_in,
    hold,
    mended,
    open_ledger,
    overwrite,
    placed,
)
from tests.support.aio import cancel, until_true
from tests.support.ledgers import change

from .scrubs import LAST, STRIPED, WHOLE, dealt_with, filled, kinds


class Counting(RateLimit):
    """Knows what was read, and by how many at once."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)
        self.units = 0.0
        self.waiting = 0
        self.waiting_most = 0

    async def keep(self, units: float) -> None:
        self.units += units
        self.waiting += 1
        self.waiting_most = max(self.waiting_most, self.waiting)
        await asyncio.sleep(0.001)
        self.waiting -= 1


async def test_a_whole_log_is_read_to_its_end_once_and_left_as_it_is(tmp_path: Path) -> None:
    pace = Counting()
    async with mended(tmp_path, pace=pace) as world:
        await filled(world, STRIPED, 7, 8)
        await world.bookie.fence(9)
        numbers = segment_files.numbers(world.bookie.disk)
        before = world.places(7)
        report = await world.scrubber.scrub_once()
        assert dealt_with(report) == {}
        assert report.segments == len(numbers) > 2
        assert report.records == 17
        synced = world.bookie.index.checkpoint_position
        sealed = sum(segment_files.size_of(world.bookie.disk, n) for n in numbers if n < synced >> 32)
        assert report.bytes_read == pace.units == sealed + place_of(synced)[1]
        assert world.places(7) == before
        assert world.peers.asked == []
        assert world.scrubber.last == report
        assert world.scrubber.passes == {"done": 1, "failed": 0}
        json.dumps(asdict(report))


@pytest.mark.parametrize("shape", [WHOLE, STRIPED], ids=str)
async def test_any_flipped_bit_is_found_and_mended_within_one_pass(
    tmp_path: Path, world: Mended, shape: Shape
) -> None:
    """R6: before the pass a reader gets an I/O error, never "no such entry"; after it the right bytes."""
    random = Random(shape.write_quorum)
    ours = placed((await filled(world, shape, 7, 8))[0])
    for flips in range(40):
        ledger_id = random.choice([7, 8])
        place = random.choice(world.places(ledger_id))
        body = place.entries * 12 + place.entries * 24  # up to the padding
        flip_in(tmp_path / "log", place, random.randrange(RECORD_HEADER.size + body))
        span = set(range(place.first_entry, place.last_entry + 1))
        given, damaged = await world.read(ledger_id, 0, LAST)
        assert damaged == span, flips
        assert set(given) == set(ours) - span
        report = await world.scrubber.scrub_once()
        assert 0 < report.damaged <= flips + 1  # what was found before is still in the log
        assert (report.frames_damaged, report.entries_repaired) == (1, place.entries)
        assert report.ledgers_unrepaired == 0
        assert place_of(place.position)[0] in report.segments_damaged
        assert await world.read(ledger_id, 0, LAST) == (ours, set())
    assert dealt_with(await world.scrubber.scrub_once()).keys() == {"damaged", "segments_damaged"}


async def test_what_a_scrub_has_mended_stays_so_after_a_restart_and_in_an_index_made_anew(
    formatted: Path,
    ledgers: LedgerStore,
) -> None:
    """R6: once the damaged segment is emptied and deleted, the log is whole again."""
    peers = DictionaryPeers(ledgers)
    async with mended(formatted, ledgers, peers=peers) as world:
        await filled(world, WHOLE, 7)
        await world.bookie.fence(404)
        flip_in(formatted / "log", world.places(7)[2])
        report = await world.scrubber.scrub_once()
        for segment in report.segments_damaged:
            done = await Compactor(world.bookie, RateLimit(AT_ONCE)).empty(segment)
            assert done.segments_dropped == 1
        assert dealt_with(await world.scrubber.scrub_once()) == {}
    rebuild.rebuild_index(formatted)
    async with mended(formatted, ledgers, peers=peers) as world:
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())
        assert await append(world.bookie, frame_of(404, [0])) == [Status.FENCED]


async def test_each_damage_is_told_once_with_its_place(
    tmp_path: Path, world: Mended, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(world, WHOLE, 7)
    place = world.places(7)[3]
    segment, offset = place_of(place.position)
    flip_in(tmp_path / "log", place)
    with caplog.at_level(logging.ERROR, "bookie.upkeep"):
        await world.scrubber.scrub_once()
        await world.scrubber.scrub_once()
    name = segment_files.name_of(segment)
    why, first, last = "checksum mismatch in the record", place.first_entry, place.last_entry
    assert [record.getMessage() for record in caplog.records] == [
        f"damaged: {name} from offset {offset} to {offset + place.size}: {why}",
        f"cannot read entries {first} to {last} of ledger 7: {name} at offset {offset}: {why}",
    ]


async def test_what_no_other_replica_has_stays_damaged_and_is_told_at_each_pass(
    tmp_path: Path, world: Mended
) -> None:
    world.peers.lost = {7: {12}}
    await filled(world, WHOLE, 7, 8)
    for ledger_id in (7, 8):
        flip_in(tmp_path / "log", world.places(ledger_id)[2])
    for expected in (9, 0):
        report = await world.scrubber.scrub_once()
        assert (report.entries_repaired, report.ledgers_unrepaired) == (expected, 1)
        assert report.unrepaired[0].ledger_id == 7
        assert "no other replica gave entry 12 of ledger 7" in report.unrepaired[0].why
        given, damaged = await world.read(7, 0, LAST)
        assert (len(given), damaged) == (LAST, {10, 11, 12, 13, 14})
    assert await world.read(8, 0, LAST) == (list(range(LAST + 1)), set())
    world.peers.lost.clear()
    assert (await world.scrubber.scrub_once()).ledgers_unrepaired == 0
    assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_rot_in_a_ledger_that_is_written_to_is_mended_when_it_is_closed(
    tmp_path: Path, world: Mended
) -> None:
    await open_ledger(world.ledgers, 7, WHOLE)
    await hold(world.bookie, 7, range(10), range(10, 20))
    flip_in(tmp_path / "log", world.places(7)[0])
    report = await world.scrubber.scrub_once()
    assert (report.frames_damaged, report.entries_repaired) == (1, 0)
    assert "not closed" in report.unrepaired[0].why
    assert world.peers.recovered == []
    assert (await world.read(7, 0, 19))[1] == set(range(10))
    await change(world.ledgers, 7, lambda it: it.closed(19, 0))
    assert (await world.scrubber.scrub_once()).entries_repaired == 10
    assert await world.read(7, 0, 19) == (list(range(20)), set())


async def test_a_fence_that_has_rotted_is_written_anew(tmp_path: Path, world: Mended) -> None:
    """R1: the log says again who is fenced, and in limbo; once for each damage, not at each pass."""
    await world.bookie.fence(404)
    await closed_ledger(world.ledgers, 5, WHOLE, LAST)
    await world.limbo()
    await filled(world, WHOLE, 7)
    flip(tmp_path / "log", 0, SEGMENT_HEADER.size + 20, 0)
    before = len(kinds(world, RecordKind.STATE))
    report = await world.scrubber.scrub_once()
    assert (report.damaged, report.frames_damaged, report.states_rewritten) == (1, 0, 2)
    assert kinds(world, RecordKind.FENCE) == []
    written = kinds(world, RecordKind.STATE)[before:]
    states = {one.ledger_id: LocalLedgerState.decode(one.ledger_id, one.content) for one in written}
    assert states.keys() == {404, 5}
    assert states[404].fence is Fence.DURABLE
    assert states[5].limbo
    again = await world.scrubber.scrub_once()
    assert (again.damaged, again.states_rewritten) == (1, 0)


async def test_which_segments_there_are_is_written_anew_too(tmp_path: Path, world: Mended) -> None:
    """R6: the record that said so may have stood in the damage; a missing segment is none that was dropped."""
    await filled(world, WHOLE, 7, 8)
    await world.bookie.forget([8])
    await Compactor(world.bookie, RateLimit(AT_ONCE)).compact(0.9)
    await filled(world, WHOLE, 9)
    lost = world.places(7)[0].position >> 32
    damaged = world.places(9)[5]
    assert lost < damaged.position >> 32
    (tmp_path / "log" / segment_files.name_of(lost)).unlink()
    flip_in(tmp_path / "log", damaged)
    world.peers.lost = {7: {0}}
    await world.scrubber.scrub_once()
    found = newest(world.bookie.disk)
    assert found is not None
    assert found.kept == {lost, *segment_files.numbers(world.bookie.disk)}


@pytest.mark.parametrize("full", [True, False])
async def test_states_that_the_disk_does_not_take_are_written_at_a_later_pass(
    tmp_path: Path, full: bool
) -> None:
    disk = SimulatedDisk(Random(1))
    async with mended(tmp_path, disk=disk) as world:
        await world.bookie.fence(404)
        await filled(world, WHOLE, 7)
        disk.overwrite(segment_files.name_of(0), SEGMENT_HEADER.size + 20, b"rot")
        if full:
            disk.capacity_bytes = disk.used_bytes
            while await append(world.bookie, frame_of(8, [0])) == [Status.OK]:
                pass
            (tmp_path / "reserve").unlink(missing_ok=True)
        report = await world.scrubber.scrub_once()
        assert report.states_rewritten == (0 if full else 1)
        assert [one.ledger_id for one in report.unrepaired] == ([-1] if full else [])
        disk.capacity_bytes = None
        assert (await world.scrubber.scrub_once()).states_rewritten == (1 if full else 0)


async def test_rot_where_nothing_is_alive_is_only_told(tmp_path: Path, world: Mended) -> None:
    await filled(world, WHOLE, 7)
    await hold(world.bookie, 8, range(3))
    (place,) = world.places(8)
    await world.bookie.forget([8])
    flip_in(tmp_path / "log", place)
    report = await world.scrubber.scrub_once()
    assert dealt_with(report).keys() == {"damaged", "segments_damaged"}
    assert world.peers.asked == []


async def test_blocks_that_the_disk_does_not_give_are_damage(tmp_path: Path) -> None:
    """R6: those who can be read around them are not fetched."""
    disk = SimulatedDisk(Random(1))
    async with mended(tmp_path, disk=disk) as world:
        await filled(world, WHOLE, 7)
        place = world.places(7)[4]
        segment, offset = place_of(place.position)
        disk.fail_reads(segment_files.name_of(segment), offset + 50, offset + 60)
        assert (await world.read(7, 0, LAST))[1] == set(range(20, 25))
        report = await world.scrubber.scrub_once()
        assert (report.damaged, report.frames_damaged, report.entries_repaired) == (1, 1, 5)
        assert await world.read(7, 0, LAST) == (list(range(LAST + 1)), set())


async def test_a_segment_that_cannot_be_opened_is_named_and_the_others_are_read(
    tmp_path: Path, world: Mended
) -> None:
    await filled(world, WHOLE, 7)
    whole = await world.scrubber.scrub_once()
    (path,) = tmp_path.rglob(segment_files.name_of(1))
    path.unlink()
    path.symlink_to(path)  # whose opening fails for root, too
    report = await world.scrubber.scrub_once()
    (unread,) = report.unread
    assert unread.startswith(f"{path.name}: ") and "symbolic links" in unread
    assert report.segments == whole.segments - 1


async def test_what_is_not_synced_yet_is_no_damage(tmp_path: Path, world: Mended) -> None:
    """Behind the last synced record the newest segment holds whatever it holds."""
    await filled(world, WHOLE, 7)
    end = world.bookie.index.checkpoint_position
    overwrite(tmp_path / "log", *place_of(end), b"half of a record")
    assert dealt_with(await world.scrubber.scrub_once()) == {}


@pytest.mark.parametrize(("first_seconds", "passes"), [(60, 0), (0, 1)])
async def test_a_pass_begins_in_its_time(first_seconds: float, passes: int, world: Mended) -> None:
    await filled(world, WHOLE, 7)
    scrubbing = asyncio.create_task(world.scrubber.scrub_for_ever(3600, first_seconds))

    async def passed() -> bool:
        return world.scrubber.passes["done"] == passes

    await until_true(passed)
    await asyncio.wait([scrubbing], timeout=0.1)
    assert world.scrubber.passes == {"done": passes, "failed": 0}
    assert not scrubbing.done()
    await cancel(scrubbing)


async def test_passes_follow_each_other_with_a_pause_however_short_the_period_is(
    world: Mended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubber, "PAUSE_SECONDS_MIN", 0.3)
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), dict[int, ScrubReport]()
    scrubbing = asyncio.create_task(world.scrubber.scrub_for_ever(0.001, 60))
    while len(seen) < 3:
        if world.scrubber.last is not None:
            seen[id(world.scrubber.last)] = world.scrubber.last
        await asyncio.wait([scrubbing], timeout=0.02)
    assert loop.time() - began > 0.6
    await cancel(scrubbing)


async def test_one_pass_at_a_time_reads_the_log(tmp_path: Path) -> None:
    pace = Counting()
    async with mended(tmp_path, pace=pace) as world:
        await filled(world, WHOLE, 7)
        flip_in(tmp_path / "log", world.places(7)[0])
        reports = await asyncio.gather(world.scrubber.scrub_once(), world.scrubber.scrub_once())
        assert [report.entries_repaired for report in reports] == [5, 0]
        assert pace.waiting_most == 1
