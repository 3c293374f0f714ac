"""Compaction frees the space of what is gone, and loses nothing of what is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bookie.errors import DamagedLog, DiskIsFull
from bookie.index.frame_locations import key_of
from bookie.log import segment_files
from bookie.log.format import RecordKind
from bookie.log.manifest import newest
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookie.offline import rebuild
from bookie.storage.bookie import Bookie
from bookie.upkeep.collecting.compactor import CompactionResult, Compactor
from bookie.wire.messages import LacReply, Status
from metadata.rate_limit import RateLimit
from tests.bookie.bookies import append, bookie_on, entries, fenced_read, lac_request, read, read_request
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import use_small_sizes

OK = Status.OK
AT_ONCE = 1e12


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=2048, group=512, step=512)


def compactor(bookie: Bookie) -> Compactor:
    return Compactor(bookie, RateLimit(AT_ONCE))


async def interleaved(bookie: Bookie, ledgers: int, entries_each: int) -> None:
    """Entry by entry round the ledgers, so that every segment holds some of each."""
    for entry_id in range(entries_each):
        for ledger_id in range(ledgers):
            assert await append(bookie, frame_of(ledger_id, [entry_id])) == [OK]
    await bookie.checkpoint()


def spoil(file: Path, offset: int) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        opened.write(b"rot")


def log_bytes(bookie: Bookie) -> int:
    return sum(segment_files.size_of(bookie.disk, number) for number in segment_files.numbers(bookie.disk))


async def test_segments_of_which_nothing_is_alive_are_deleted_without_being_read(bookie: Bookie) -> None:
    await append(bookie, *(frame_of(7, [n]) for n in range(60)))
    await append(bookie, *(frame_of(8, [n]) for n in range(30)))
    await bookie.checkpoint()
    before = set(segment_files.numbers(bookie.disk))
    await bookie.forget([7])
    done = await compactor(bookie).compact(0.0)
    assert done.segments_dropped > 1
    assert done.bytes_moved == 0
    gone = before - set(segment_files.numbers(bookie.disk))
    assert len(gone) == done.segments_dropped
    assert await read(bookie, 8) == entries(8, range(30))


@pytest.mark.parametrize("restarted", ["stopped", "with the index made anew", "with the index lost"])
async def test_what_is_alive_in_thin_segments_is_read_as_before_in_this_life_and_the_next(
    formatted: Path, restarted: str
) -> None:
    async with bookie_on(formatted) as bookie:
        await interleaved(bookie, 4, 30)
        await bookie.forget([0, 1, 2])
        before = log_bytes(bookie)
        done = await compactor(bookie).compact(0.8)
        assert done.segments_dropped > 4
        assert done.bytes_freed > done.bytes_moved > 0
        assert log_bytes(bookie) < before / 2
        assert await read(bookie, 3) == entries(3, range(30))
    if restarted == "with the index made anew":
        rebuild.rebuild_index(formatted)
    elif restarted == "with the index lost":
        for file in (formatted / "index").iterdir():
            file.unlink()
    async with bookie_on(formatted) as bookie:
        assert await read(bookie, 3) == entries(3, range(30))


async def test_fences_and_last_add_confirmed_outlive_the_segments_they_were_written_in(
    formatted: Path,
) -> None:
    """R1: also for one who has nothing but the log."""
    async with bookie_on(formatted) as bookie:
        await bookie.fence(404)
        await append(bookie, frame_of(5, [0], lac=-1), frame_of(5, [], lac=0))
        await append(bookie, *(frame_of(7, [n]) for n in range(60)))
        await bookie.checkpoint()
        await bookie.forget([7])
        for _ in range(3):  # the states are moved, and moved again
            await append(bookie, *(frame_of(7, [n]) for n in range(60)))
            await bookie.checkpoint()
            await bookie.forget([7])
            await compactor(bookie).compact(0.99)
        assert 0 not in segment_files.numbers(bookie.disk)
    rebuild.rebuild_index(formatted)
    async with bookie_on(formatted) as bookie:
        assert await append(bookie, frame_of(404, [0])) == [Status.FENCED]
        assert await read(bookie, 5) == entries(5, [0])
        assert await bookie.last_add_confirmed(lac_request(5)) == LacReply(OK, lac_of(0))


async def test_readers_in_the_middle_of_a_compaction_find_every_entry(bookie: Bookie) -> None:
    await interleaved(bookie, 3, 60)
    await bookie.forget([0, 1])
    compacting = asyncio.create_task(compactor(bookie).compact(0.8))
    reads = 0
    while not compacting.done():
        reply = await bookie.read(read_request(2))
        assert reply.damaged == ()
        assert await read(bookie, 2) == entries(2, range(60))
        reads += 1
    assert (await compacting).segments_dropped > 4
    assert reads > 1


async def test_a_segment_that_cannot_be_read_is_kept_and_its_other_frames_are_not_lost(
    tmp_path: Path, bookie: Bookie
) -> None:
    await interleaved(bookie, 2, 40)
    await bookie.checkpoint()
    await bookie.forget([0])
    [(_, damaged), *_] = [found for found in bookie.index.places(1) if found[1].position < 1 << 32]
    spoil(tmp_path / "log" / segment_files.name_of(0), damaged.position + 90)
    done = await compactor(bookie).compact(0.8)
    assert done.segments_kept == 1
    assert 0 in segment_files.numbers(bookie.disk)
    reply = await bookie.read(read_request(1, last=39))
    assert [(r.first_entry, r.last_entry) for r in reply.damaged] == [(damaged.first_entry,) * 2]
    assert len(reply.columns) == 39


async def test_a_segment_whose_frames_the_index_has_lost_is_kept(bookie: Bookie) -> None:
    """R6: they look dead, and the log is the only place that still has them."""
    await interleaved(bookie, 3, 40)
    await bookie.forget([0, 1])
    [(_, lost), *_] = [found for found in bookie.index.places(2) if found[1].position < 1 << 32]
    with bookie.index._env.begin(write=True, db=bookie.index._places.db) as txn:
        assert txn.delete(key_of(2, lost))
    assert (await compactor(bookie).empty(0)).segments_kept == 1
    assert 0 in segment_files.numbers(bookie.disk)


async def test_the_log_says_which_segments_are_there_before_any_is_deleted(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await interleaved(bookie, 2, 40)
        await bookie.forget([0])
        await compactor(bookie).compact(0.8)
        manifest = newest(bookie.disk)
        assert manifest is not None
        there = segment_files.numbers(bookie.disk)
        assert manifest.kept <= set(there)
        assert all(manifest.dropped(n) for n in range(there[0]))
    # A segment that is missing without leave is damage, for one who reads the whole log.
    (tmp_path / "log" / segment_files.name_of(there[1])).unlink()
    for name in (tmp_path / "index").iterdir():
        name.unlink()
    with pytest.raises(Exception, match=segment_files.name_of(there[1])):
        async with bookie_on(tmp_path):
            pass


async def test_a_segment_that_was_lost_is_not_given_up_by_deleting_others(tmp_path: Path) -> None:
    """R6: without its name in the log, the next start would take it for one that was deleted with leave."""
    async with bookie_on(tmp_path) as bookie:
        await interleaved(bookie, 2, 40)
        await append(bookie, *(frame_of(0, [n]) for n in range(40, 100)))
        await bookie.checkpoint()
        await bookie.forget([0])
        bookie.files.forget([0])
        (tmp_path / "log" / segment_files.name_of(0)).unlink()
        assert (await compactor(bookie).compact(0.0)).segments_dropped > 0
        manifest = newest(bookie.disk)
        assert manifest is not None
        assert not manifest.dropped(0)
    with pytest.raises(DamagedLog, match=segment_files.name_of(0)):
        async with bookie_on(tmp_path):
            pass


async def test_runs_come_to_an_end_and_then_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_sizes(monkeypatch, segment=8192)  # else the log of segments that are gone is a good part of one
    async with bookie_on(tmp_path) as bookie:
        await interleaved(bookie, 2, 200)
        await bookie.fence(404)
        await bookie.forget([0])
        assert (await compactor(bookie).compact(0.8)).segments_dropped > 2
        await compactor(bookie).compact(0.8)  # what was the log's tail when the first one began
        for _ in range(3):
            position = bookie.index.checkpoint_position
            assert await compactor(bookie).compact(0.8) == CompactionResult()
            assert bookie.index.checkpoint_position == position


async def test_a_frame_that_an_interrupted_run_has_copied_is_not_copied_again(bookie: Bookie) -> None:
    await interleaved(bookie, 2, 20)
    await bookie.forget([0])
    copies = [
        found.record._replace(recovery=False)
        for found in walk(bookie.disk, 0)
        if isinstance(found, Found)
        and found.record.kind is RecordKind.ENTRIES
        and found.record.ledger_id == 1
    ]
    await bookie.store(copies)  # as a run does that dies before its checkpoint
    await bookie.checkpoint()
    done = await compactor(bookie).empty(0)
    assert done.segments_dropped == 1
    assert sum(1 for _ in bookie.index.places(1)) == 20
    assert await read(bookie, 1) == entries(1, range(20))


async def test_a_copy_with_other_bytes_is_no_copy(bookie: Bookie) -> None:
    """The same entry with another payload under the same id stays beside it, as before."""
    assert await append(bookie, frame_of(1, [0], payload_bytes=40)) == [OK]
    await append(bookie, *(frame_of(0, [n]) for n in range(40)))
    other = frame_of(2, [0], payload_bytes=40).columns
    assert await append(bookie, frame_of(1, [0])._replace(columns=other)) == [OK]
    await bookie.checkpoint()
    await bookie.forget([0])
    await compactor(bookie).compact(0.99)
    assert sum(1 for _ in bookie.index.places(1)) == 2


async def test_a_full_disk_interrupts_a_compaction_and_nothing_is_lost(bookie: Bookie) -> None:
    await interleaved(bookie, 3, 40)
    await bookie.checkpoint()
    await bookie.forget([0, 1])
    real = bookie.store

    async def full(records: object) -> None:
        raise DiskIsFull("no space")

    bookie.store = full  # type: ignore[method-assign]
    with pytest.raises(DiskIsFull):
        await compactor(bookie).compact(0.8)
    bookie.store = real  # type: ignore[method-assign]
    assert await read(bookie, 2) == entries(2, range(40))
    assert (await compactor(bookie).compact(0.8)).segments_dropped > 0
    assert await read(bookie, 2) == entries(2, range(40))


async def test_appends_and_fences_of_a_moved_ledger_go_on_meanwhile(bookie: Bookie) -> None:
    await interleaved(bookie, 3, 40)
    await bookie.forget([0, 1])
    compacting = asyncio.create_task(compactor(bookie).compact(0.8))
    last = 40
    while not compacting.done():
        assert await append(bookie, frame_of(2, [last])) == [OK]
        last += 1
    await compacting
    assert (await fenced_read(bookie, 2)).status is OK
    assert await read(bookie, 2) == entries(2, range(last))


async def test_the_bookies_own_copies_do_not_count_as_appends(bookie: Bookie) -> None:
    await interleaved(bookie, 2, 20)
    await bookie.forget([0])
    await compactor(bookie).compact(0.8)
    assert bookie.metrics.counters.entries_added == 40
