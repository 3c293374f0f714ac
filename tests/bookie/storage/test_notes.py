"""What a bookie is told of its ledgers it keeps beside their entries, through all that it keeps those through."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.errors import LogFailed
from bookie.index import notes_table as notes_table
from bookie.log import segment_files
from bookie.offline.notes import notes_in
from bookie.offline.rebuild import rebuild_index
from bookie.serving import directory
from bookie.serving.request_processor import RequestProcessor
from bookie.storage.bookie import Bookie
from bookie.storage.core import state_record
from bookie.upkeep.collecting.compactor import Compactor
from bookie.wire.messages import HeldNote, NotesRequest, Status
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records import records_pb2 as pb
from metadata.records.ledger_record import Fragment
from tests.bookie.bookies import append, bookie_on, entries, read_request, submit
from tests.bookie.entries import entries_of, frame_of
from tests.bookie.logs import found_in, use_small_sizes
from tests.bookie.notes import BK1, BK3, note_of, noted, record_of
from tests.bookie.slow_disk import SlowSyncDisk

OK = Status.OK
AT_ONCE = 1e12


def held(bookie: Bookie) -> list[HeldNote]:
    """All of it, as it is asked for over the network."""
    found: list[HeldNote] = []
    first = 0, 0
    while True:
        page, is_last = bookie.index.notes.page(*first)
        found += page
        if is_last:
            return found
        first = found[-1].ledger_id, found[-1].first_entry + 1


def of_record(bookie: Bookie, ledger_id: int) -> list[bytes]:
    return [note for _, note in sorted(bookie.index.notes.of(ledger_id).items())]


async def test_the_first_frame_brings_the_note_and_later_ones_need_none(bookie: Bookie) -> None:
    record = record_of(7)
    later = frame_of(7, [1])._replace(identity=record.identity)
    assert await append(bookie, noted(record, [0]), later) == [OK, OK]
    assert of_record(bookie, 7) == [note_of(record)]
    await bookie.checkpoint()
    assert held(bookie) == [HeldNote(7, 0, record.identity, note_of(record))]
    page = await bookie.read(replace(read_request(7, 0, 1), identity=record.identity))
    assert entries_of(page.columns) == entries(7, [0, 1])


async def test_a_note_may_come_without_entries_and_says_of_none_that_they_are_here(bookie: Bookie) -> None:
    closed = record_of(7).closed(-1, 0)
    assert await append(bookie, noted(closed, [])) == [OK]
    assert of_record(bookie, 7) == [note_of(closed)]
    assert not bookie.states.peek(7).known


async def test_what_is_told_in_passing_is_kept_of_a_ledger_that_is_here_and_of_no_other(
    bookie: Bookie,
) -> None:
    first = record_of(7)
    closed, unheard_of = first.closed(0, 20), record_of(8).closed(0, 20)
    assert await append(bookie, noted(first, [0])) == [OK]
    for other in (record_of(7, identity=b"another identity"), replace(first, verifier=bytes(32))):
        bookie.append_note(noted(other.closed(9, 200), []))
    for one in (closed, unheard_of, first):
        bookie.append_note(noted(one, []))
    assert await append(bookie, frame_of(9, [0])) == [OK], "which syncs what came before it"
    assert of_record(bookie, 7) == [note_of(closed)]
    await bookie.checkpoint()
    assert held(bookie) == [
        HeldNote(7, 0, first.identity, note_of(closed)),
        HeldNote(9, 0, b"", b""),
    ]
    assert await append(bookie, noted(first, [], recovery=True)) == [OK]
    await bookie.checkpoint()
    assert held(bookie)[0].note == note_of(closed), "an older one changes nothing"


async def test_what_is_told_in_passing_is_known_without_a_sync_and_outlives_the_process(
    tmp_path: Path,
) -> None:
    async with bookie_on(tmp_path) as bookie:
        first = record_of(7)
        closed = first.closed(0, 20)
        assert await append(bookie, noted(first, [0])) == [OK]
        syncs = bookie.syncs
        bookie.append_note(noted(closed, []))
        await bookie.intake.settled(bookie.failed)
        assert (of_record(bookie, 7), bookie.intake.bytes, bookie.syncs) == ([note_of(closed)], 0, syncs)
        assert [one.record.note for one in found_in(bookie.disk)][-1] == note_of(closed), "in the log"
        bookie.failed.set_result(LogFailed("killed"))  # so that it makes no checkpoint
    async with bookie_on(tmp_path) as bookie:
        assert of_record(bookie, 7) == [note_of(closed)]


async def test_who_asks_for_the_notes_waits_for_each_that_was_admitted_before(tmp_path: Path) -> None:
    """Its frame may be acknowledged next, after an operator has accepted an older copy of the metadata by the notes."""
    path = tmp_path / "b"
    await directory.format_directory(path, "b1", MemoryStore())
    cookie, disk, record = directory.read_cookie(path), SlowSyncDisk(path / "log"), record_of(7)
    async with bookie_on(path, disk, incarnation=cookie.incarnation) as bookie:
        disk.go_on.clear()
        admitted = submit(bookie, noted(record, [0]))
        asked = asyncio.ensure_future(
            RequestProcessor(bookie, cookie, path, "1").notes(NotesRequest(cookie.incarnation))
        )
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert not done
        disk.go_on.set()
        assert (await asked).notes == (HeldNote(7, 0, record.identity, note_of(record)),)
        assert await admitted == (OK, "")


async def test_each_fragment_has_its_note_and_of_one_the_newest_stays(bookie: Bookie) -> None:
    first = record_of(7)
    second = first.changed_ensemble(Fragment(5, (BK1, BK3)))
    third = second.changed_ensemble(Fragment(5, (BK3, BK1)))
    closed = third.closed(6, 140)
    await append(bookie, noted(first, [0]), noted(third, [5]), noted(second, [6]))
    assert of_record(bookie, 7) == [note_of(first), note_of(third)]
    await bookie.checkpoint()
    await append(bookie, noted(closed, []), noted(third, [6]))
    assert of_record(bookie, 7) == [note_of(first), note_of(closed)]
    await bookie.checkpoint()
    assert [one.note for one in held(bookie)] == [note_of(first), note_of(closed)]


@pytest.mark.parametrize("restarted", ["stopped", "killed", "with the index made anew"])
async def test_notes_outlive_the_process_and_the_index(formatted: Path, restarted: str) -> None:
    first, second = record_of(7), record_of(8, custom={"owner": b"us"})
    async with bookie_on(formatted) as bookie:
        await append(bookie, noted(first, [0]))
        await bookie.checkpoint()
        await append(bookie, noted(second, [0]), frame_of(9, [0]))
        if restarted == "killed":
            bookie.failed.set_result(LogFailed("killed"))  # so that it makes no checkpoint
    if restarted == "with the index made anew":
        rebuild_index(formatted)
    expected = [
        HeldNote(7, 0, first.identity, note_of(first)),
        HeldNote(8, 0, second.identity, note_of(second)),
        HeldNote(9, 0, b"", b""),
    ]
    assert [*notes_in(formatted)] == expected
    async with bookie_on(formatted) as bookie:
        assert of_record(bookie, 8) == [note_of(second)]
        await bookie.checkpoint()
        assert held(bookie) == expected


async def test_compaction_writes_the_notes_of_what_it_moves_again(
    formatted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_sizes(monkeypatch, segment=2048, group=512, step=512)
    records = [record_of(n) for n in range(6)]
    closed = records[3].closed(40, 820)
    async with bookie_on(formatted) as bookie:
        for record in records:
            await append(bookie, noted(record, [0]))
        await append(bookie, noted(closed, [], recovery=True))
        await append(bookie, *(frame_of(99, [n]) for n in range(60)))
        await bookie.checkpoint()
        begun = set(segment_files.numbers(bookie.disk))
        await bookie.forget([99, 5])
        compactor = Compactor(bookie, RateLimit(AT_ONCE))
        for number in sorted(begun)[:-1]:
            await compactor.empty(number)
        assert not {0, 1} & set(segment_files.numbers(bookie.disk))
        await bookie.checkpoint()
        expected = [HeldNote(n, 0, records[n].identity, note_of(records[n])) for n in range(5)]
        expected[3] = expected[3]._replace(note=note_of(closed))
        assert held(bookie) == expected
    rebuild_index(formatted)
    assert [one for one in notes_in(formatted) if one.ledger_id < 5] == expected


async def test_segments_full_of_notes_are_not_compacted_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_sizes(monkeypatch, segment=16 * 1024, group=512, step=512)
    async with bookie_on(tmp_path) as bookie:
        for n in range(40):
            record = record_of(n, custom={"what": bytes(1500)})
            await append(bookie, noted(record, []))
        await append(bookie, *(frame_of(99, [n], payload_bytes=3000) for n in range(12)))
        await bookie.checkpoint()
        compactor = Compactor(bookie, RateLimit(AT_ONCE))
        await compactor.compact(0.5)
        before = segment_files.numbers(bookie.disk)
        await compactor.compact(0.5)
        assert segment_files.numbers(bookie.disk) == before
        assert len(held(bookie)) == 41


async def test_a_forgotten_ledger_leaves_no_note(bookie: Bookie) -> None:
    await append(bookie, noted(record_of(7), [0]), noted(record_of(8), [0]))
    await bookie.checkpoint()
    await bookie.forget([7])
    assert [one.ledger_id for one in held(bookie)] == [8]


@pytest.mark.parametrize("restarted", ["stopped", "killed"])
async def test_a_note_that_no_sync_has_covered_is_forgotten_with_its_ledger(
    formatted: Path, restarted: str
) -> None:
    """The end of a ledger that was closed just before it was deleted, for example: a restart does not bring it back."""
    async with bookie_on(formatted) as bookie:
        await append(bookie, noted(record_of(7), [0]), noted(record_of(8), [0]))
        bookie.append_note(noted(record_of(7).closed(0, 100), []))
        await bookie.forget([7])
        assert bookie.index.ledger_ids() == [one.ledger_id for one in held(bookie)] == [8]
        if restarted == "killed":
            bookie.failed.set_result(LogFailed("killed"))  # so that it makes no checkpoint
    async with bookie_on(formatted) as bookie:
        await bookie.checkpoint()
        assert bookie.index.ledger_ids() == [one.ledger_id for one in held(bookie)] == [8]


async def test_a_state_that_is_written_anew_leaves_the_notes_as_they_are(bookie: Bookie) -> None:
    await append(bookie, noted(record_of(7), [0]))
    await bookie.store([state_record(replace(bookie.states.peek(7), limbo=True))])
    assert of_record(bookie, 7) == [note_of(record_of(7))]


async def test_a_note_of_another_ledger_is_refused(bookie: Bookie) -> None:
    for other in (record_of(8), record_of(7, identity=b"another identity")):
        frame = noted(record_of(7), [0])._replace(note=note_of(other))
        status, why = await submit(bookie, frame)
        assert status is Status.BAD_REQUEST
        assert "to a ledger other than ledger 7" in why
    status, why = await submit(bookie, noted(record_of(7), [0])._replace(note=b"junk"))
    assert status is Status.BAD_REQUEST
    assert await append(bookie, noted(record_of(7), [0])) == [OK]


async def test_a_note_of_a_newer_program_is_passed_over_and_its_entries_are_kept(bookie: Bookie) -> None:
    newer = pb.FragmentNote.FromString(note_of(record_of(7)))
    newer.format_version = 99
    frame = noted(record_of(7), [0])._replace(note=newer.SerializeToString())
    assert await append(bookie, frame) == [OK]
    assert of_record(bookie, 7) == []
    page = await bookie.read(replace(read_request(7, 0, 0), identity=frame.identity))
    assert entries_of(page.columns) == entries(7, [0])


async def test_pages_of_notes_are_bounded_and_leave_nothing_out(
    bookie: Bookie, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes_table, "NOTES_PER_PAGE_MAX", 3)
    monkeypatch.setattr(notes_table, "NOTES_PAGE_BYTES_MAX", 500)
    striped = record_of(4)
    for first in range(1, 6):
        striped = striped.changed_ensemble(Fragment(first, (BK1, BK3) if first % 2 else (BK3, BK1)))
    await append(bookie, noted(record_of(2, custom={"large": bytes(2000)}), [0]), frame_of(3, [0]))
    alone = [replace(striped, fragments=striped.fragments[: n + 1]) for n in range(6)]
    await append(bookie, *(noted(one, [n]) for n, one in enumerate(alone)))
    await bookie.checkpoint()
    page, is_last = bookie.index.notes.page(0, 0)
    assert [one.ledger_id for one in page] == [2]
    assert not is_last
    found = [(one.ledger_id, one.first_entry) for one in held(bookie)]
    assert found == [(2, 0), (3, 0), *((4, n) for n in range(6))]
