"""What a stopped bookie's directory holds, what is wrong with it and where, and an index made anew."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bookie.disk.disk import OsDisk
from bookie.errors import DamagedLog, DataDirectoryError
from bookie.index.index import Index
from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.log import manifest, segment_files
from bookie.log.format import NO_LEDGER, SEGMENT_HEADER, BookieLogRecord, RecordKind, place_of, position_of
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookie.offline.check import CheckResult, check
from bookie.offline.dump import dump
from bookie.offline.log_salvage import salvage
from bookie.offline.rebuild import NEW, OLD, rebuild_index
from bookie.serving import directory
from bookie.wire.messages import Frame, Status
from metadata.memory_store import MemoryStore
from tests.bookie.bookies import append, bookie_on, read
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.logs import use_small_sizes, write_all

FIRST = "00000000.log"


async def stopped_bookie(path: Path) -> Path:
    """A directory with three ledgers of a few frames each, a fence, and everything in the index."""
    async with bookie_on(path) as bookie:
        for n in range(5):
            frames = [frame_of(ledger, [2 * n, 2 * n + 1], lac=2 * n - 1) for ledger in (1, 2, 3)]
            assert await append(bookie, *frames) == [Status.OK] * 3
        assert await bookie.fence(2) == (Status.OK, "")
    return path


@pytest.fixture
async def stopped(formatted: Path) -> Path:
    return await stopped_bookie(formatted)


def records(path: Path) -> list[Found]:
    return [found for found in walk(OsDisk(path / "log"), 0) if isinstance(found, Found)]


def flip(path: Path, offset: int) -> None:
    data = bytearray((path / "log" / FIRST).read_bytes())
    data[offset] ^= 1
    (path / "log" / FIRST).write_bytes(data)


def whats(findings: CheckResult) -> list[tuple[str, int]]:
    return [(problem.file, problem.offset) for problem in findings.problems]


def test_a_whole_directory_has_nothing_wrong_with_it(stopped: Path) -> None:
    read: list[int] = []
    findings = check(stopped, read.append)
    assert sum(read) + SEGMENT_HEADER.size == sum(file.stat().st_size for file in (stopped / "log").iterdir())
    assert (findings.problems, findings.notes) == ([], [])
    assert (findings.segments, findings.records, findings.entries, findings.ledgers) == (1, 16, 30, 3)


def test_a_check_changes_nothing(stopped: Path) -> None:
    def everything() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in stopped.rglob("*") if p.is_file() and p.name != "lock.mdb"}

    flip(stopped, records(stopped)[3].position + 90)
    before = everything()
    check(stopped)
    assert everything() == before


def test_damage_is_named_with_file_and_offset_and_what_follows_is_still_read(stopped: Path) -> None:
    broken = records(stopped)[3]
    flip(stopped, place_of(broken.position)[1] + 90)
    findings = check(stopped)
    assert (FIRST, broken.position) in whats(findings)
    assert findings.records == 15
    columns = broken.record.columns
    assert columns is not None
    assert [(one.ledger, one.first_entry, one.last_entry) for one in findings.lost] == [
        (broken.record.ledger_id, columns.first_entry, columns.last_entry)
    ]
    with pytest.raises(DamagedLog):
        rebuild_index(stopped)


def test_a_torn_tail_is_a_note_and_no_problem(stopped: Path) -> None:
    """The bookie cuts it when it starts."""
    end = (stopped / "log" / FIRST).stat().st_size
    with (stopped / "log" / FIRST).open("ab") as file:
        file.write(b"half a record")
    findings = check(stopped)
    assert [(note.file, note.offset) for note in findings.notes] == [(FIRST, end)]
    assert findings.is_whole


def test_a_log_that_ends_before_its_checkpoint_has_lost_its_tail(stopped: Path) -> None:
    """R6: it is no torn tail where the index knows that it was on disk."""
    last = records(stopped)[-1]
    with (stopped / "log" / FIRST).open("r+b") as file:
        file.truncate(last.position + 40)
    (problem,) = [problem for problem in check(stopped).problems if problem.file == FIRST]
    assert problem.offset == last.position
    assert "salvage" in problem.what


async def test_a_bookie_that_was_killed_right_after_its_start_has_nothing_wrong_with_it(
    stopped: Path,
) -> None:
    """Its checkpoint stands in a segment in which nothing stands yet."""

    async def killed(path: Path, to: Path, *frames: Frame) -> None:
        async with bookie_on(path) as bookie:
            assert await append(bookie, *frames) == [Status.OK] * len(frames)
            shutil.copytree(path, to, ignore=shutil.ignore_patterns("reserve"))

    first, second = stopped.with_name("first"), stopped.with_name("second")
    await killed(stopped, first, frame_of(3, [10]))
    await killed(first, second)
    assert place_of(only_line(second, "checkpoint")) == (2, 0)
    findings = check(second)
    assert (findings.problems, findings.notes, findings.lost) == ([], [], [])


async def test_a_segment_of_another_bookie_is_named(stopped: Path, tmp_path: Path) -> None:
    data = (stopped / "log" / FIRST).read_bytes()
    assert data[:8] == b"bkldgseg"
    other = tmp_path / "other"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uuid.uuid4", lambda: "5f0e8e6c-66b0-4f3e-9d0c-2b1f6f0d8a12")
        await directory.format_directory(other, "b2", MemoryStore())
    shutil.copy(stopped / "log" / FIRST, other / "log" / FIRST)
    assert (FIRST, 0) in whats(check(other))


def only_line(path: Path, kind: str) -> int:
    """The position that the only line of this kind of an index has."""
    (line,) = [line for line in dump(path / "index") if line["kind"] == kind]
    segment = segment_files.number_of(str(line["segment"]))
    assert segment is not None
    assert isinstance(line["offset"], int)
    return position_of(segment, line["offset"])


def change_index(path: Path, change: Callable[[Index], None]) -> None:
    with closing(Index(path / "index")) as index:
        change(index)


def noticed_and_made_anew(path: Path, change: Callable[[Index], None]) -> str:
    """The one thing that is wrong after this change of the index, which a rebuild mends."""
    change_index(path, change)
    (problem,) = check(path).problems
    assert "rebuild-index" in problem.what
    assert rebuild_index(path) > 0
    assert check(path).is_whole
    return problem.what


def commit(index: Index, *rows: LocalLedgerState) -> None:
    index.begin_checkpoint()
    index.commit_checkpoint(index.checkpoint_position, [(row.ledger_id, row.encode()) for row in rows])
    index.end_checkpoint()


def add_a_place(index: Index, *, further: int) -> None:
    ((ledger_id, place), *_) = index.places()
    index.add(ledger_id, place._replace(position=place.position + further))
    commit(index)


async def test_a_frame_that_the_index_does_not_point_to_is_garbage_as_far_as_anybody_can_tell(
    stopped: Path,
) -> None:
    """Of a ledger that was deleted, or one that was moved; a start brings nothing of it back."""
    async with bookie_on(stopped) as bookie:
        await bookie.forget([1])
    findings = check(stopped)
    assert findings.is_whole
    (note,) = findings.notes
    assert note.what.startswith(
        "the index does not point to 5 frames of the log: they are garbage or were moved; the entries of 5 "
    )


def test_an_index_that_points_to_a_frame_too_many_is_noticed_and_made_anew(stopped: Path) -> None:
    told = noticed_and_made_anew(stopped, lambda index: add_a_place(index, further=8))
    assert "points to a frame of ledger 1 that is not in 00000000.log at offset 72" in told


def test_an_index_that_counts_less_of_a_segment_than_it_points_to_is_noticed_and_made_anew(
    stopped: Path,
) -> None:
    """The segment could be taken for empty, and dropped."""

    def count_less(index: Index) -> None:
        (place, *_) = [place for ledger_id, place in index.places() if ledger_id == 2]
        with index._writing() as txn:
            index.usage.change(txn, [], [(2, place)], {})

    told = noticed_and_made_anew(stopped, count_less)
    assert "of ledger 2 in 00000000.log, but points to" in told


def test_an_index_that_counts_more_than_it_points_to_is_in_the_middle_of_a_deletion(stopped: Path) -> None:
    """A crash left it there; the next collection deletes the rest."""

    def begin_to_forget(index: Index) -> None:
        assert not index._forget_some(1)

    change_index(stopped, begin_to_forget)
    findings = check(stopped)
    assert findings.is_whole
    assert any("a deletion is unfinished" in note.what for note in findings.notes)


def test_an_index_in_which_rot_hides_a_frame_is_noticed_and_made_anew(stopped: Path) -> None:
    """R6: what it does not find is denied."""

    def hide_a_place(index: Index) -> None:
        with index._env.begin(write=True, db=index._places.db) as txn:
            cursor = txn.cursor()
            assert cursor.first()
            assert cursor.delete()

    assert "lacks frames of ledger 1 that it should hold" in noticed_and_made_anew(stopped, hide_a_place)


@pytest.mark.parametrize("what", ["fence", "limbo", "mark of stored entries", "last-add-confirmed"])
async def test_an_index_that_has_lost_what_the_log_says_of_a_ledger_is_noticed_and_made_anew(
    stopped: Path, what: str
) -> None:
    """R1, R6"""
    async with bookie_on(stopped) as bookie:
        state = bookie.states.hold(2)
        state.limbo = True
        await bookie.store([BookieLogRecord(RecordKind.STATE, 2, content=state.encode())])
    findings = check(stopped)
    assert findings.is_whole
    assert [note.what for note in findings.notes] == ["ledgers in limbo: 1; run: bookledger bookie repair"]
    (state,) = [state for state in states_of(stopped) if state.ledger_id == 2]
    match what:
        case "fence":
            state.fence = Fence.NONE
        case "limbo":
            state.limbo = False
        case "mark of stored entries":
            state.known = False
        case _:
            state.last_add_confirmed = None
    told = noticed_and_made_anew(stopped, lambda index: commit(index, state))
    assert f"{what} of ledger 2, which is in the log" in told


def test_a_ledger_that_the_index_does_not_know_is_noticed(stopped: Path) -> None:
    """R6: a bookie that starts with this index says "no such ledger"."""

    def forget(index: Index) -> None:
        with index._writing() as txn:
            index._ledgers.delete(txn, (1).to_bytes(8, "big"))

    change_index(stopped, forget)
    assert check(stopped).problems


def states_of(path: Path) -> list[LocalLedgerState]:
    with closing(Index(path / "index")) as index:
        return list(index.states())


def test_what_stands_of_a_ledger_in_the_index_alone_is_noticed(stopped: Path) -> None:
    """R1: the next index that is made of the log would be without it."""
    first, _, third = states_of(stopped)
    first.last_add_confirmed = lac_of(1000)
    third.fence = Fence.DURABLE
    change_index(stopped, lambda index: commit(index, first, third, LocalLedgerState(99)))
    assert [problem.what.split(";")[0] for problem in check(stopped).problems] == [
        "its last-add-confirmed of ledger 1 differs from the log's",
        "it has a fence of ledger 3, but the log has none",
        "it has a state of ledger 99, but the log has no records of it",
    ]


# --- segments that come and go


@pytest.fixture
async def in_segments(formatted: Path) -> Path:
    """A bookie whose log has several segments, of which ledger 1 had all to itself in the first, and is deleted."""
    path = formatted
    async with bookie_on(path, segment_bytes_max=600) as bookie:
        for ledger_id in (1, 2, 3):
            for n in range(3):
                assert await append(bookie, frame_of(ledger_id, [2 * n, 2 * n + 1])) == [Status.OK]
        await bookie.checkpoint()
        await bookie.forget([1])
        kept = set(segment_files.numbers(OsDisk(path / "log"))) - {0}
        await bookie.store([manifest.to_record(kept)])
    assert check(path).is_whole
    return path


def test_a_segment_that_was_dropped_is_not_missed(in_segments: Path) -> None:
    (in_segments / "log" / FIRST).unlink()
    findings = check(in_segments)
    assert (findings.problems, findings.notes, findings.lost) == ([], [], [])
    assert rebuild_index(in_segments) == 6


def test_a_segment_that_was_dropped_and_is_still_there_is_a_note(in_segments: Path) -> None:
    findings = check(in_segments)
    assert (FIRST, 0, "dropped but not deleted, because of a crash") in [
        (note.file, note.offset, note.what) for note in findings.notes
    ]


def test_a_missing_segment_is_named_with_the_entries_that_stood_in_it(in_segments: Path) -> None:
    """R6: rebuilding the index would make them absent, so that is refused."""
    (in_segments / "log" / "00000001.log").unlink()
    findings = check(in_segments)
    assert [(p.file, p.offset, "salvage" in p.what) for p in findings.problems] == [("00000001.log", 0, True)]
    assert [
        (one.file, one.ledger, one.first_entry, one.last_entry, one.entries) for one in findings.lost
    ] == [("00000001.log", 2, 0, 5, 6)]
    with pytest.raises(DamagedLog, match=r"00000001\.log"):
        rebuild_index(in_segments)


async def test_entries_that_the_index_places_in_a_dropped_segment_are_lost(in_segments: Path) -> None:
    """R6: it was dropped too early; to make the index anew would hide that, before it is salvaged."""
    async with bookie_on(in_segments) as bookie:
        await bookie.store([manifest.to_record([2, 3])])
    (in_segments / "log" / "00000001.log").unlink()
    findings = check(in_segments)
    assert [(one.file, one.ledger, one.entries) for one in findings.lost] == [("00000001.log", 2, 6)]
    assert whats(findings) == [("00000001.log", 0)]
    with pytest.raises(DamagedLog, match=r"00000001\.log"):
        rebuild_index(in_segments)
    salvage(in_segments, lambda _: None)
    assert check(in_segments).problems == []
    rebuild_index(in_segments)


def test_the_file_of_another_segment_is_named(stopped: Path) -> None:
    shutil.copy(stopped / "log" / FIRST, stopped / "log" / "00000001.log")
    (problem,) = [problem for problem in check(stopped).problems if problem.file == "00000001.log"]
    assert "segment 0 under another name" in problem.what
    assert "salvage" not in problem.what


async def test_an_index_that_is_gone_or_garbage_is_made_anew_and_the_bookie_serves_all_of_it(
    stopped: Path,
) -> None:
    shutil.rmtree(stopped / "index")
    (stopped / "index").mkdir()
    (stopped / "index" / "data.mdb").write_bytes(b"garbage" * 4000)
    assert [problem.file for problem in check(stopped).problems] == ["index"]
    assert rebuild_index(stopped) == 15
    async with bookie_on(stopped) as bookie:
        assert [e[0] for e in await read(bookie, 3, 0, 9)] == list(range(10))
        assert await append(bookie, frame_of(2, [10])) == [Status.FENCED], "fences come from the log too"


@pytest.mark.parametrize(
    "crash", ["while it was made", "between the renames", "before the old one was removed"]
)
def test_a_rebuild_that_a_crash_interrupted_is_finished_by_the_next(stopped: Path, crash: str) -> None:
    shutil.copytree(stopped / "index", stopped / NEW)
    if crash == "between the renames":
        (stopped / "index").rename(stopped / OLD)
    elif crash == "before the old one was removed":
        (stopped / "index").rename(stopped / OLD)
        (stopped / NEW).rename(stopped / "index")
    assert rebuild_index(stopped) == 15
    assert check(stopped).problems == []
    assert {p.name for p in stopped.iterdir()} <= {"cookie.json", "index", "log", "reserve"}


async def test_a_bookie_that_runs_is_left_alone(stopped: Path) -> None:
    with closing(directory.lock(stopped)):
        for work in (check, rebuild_index):
            with pytest.raises(DataDirectoryError, match="in use"):
                await asyncio.to_thread(work, stopped)


async def test_a_segment_cut_between_two_records_is_noticed_by_what_the_next_says(
    formatted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_sizes(monkeypatch, segment=1024, group=512)
    path = await stopped_bookie(formatted)
    assert check(path).problems == []
    first = records(path)
    with (path / "log" / FIRST).open("r+b") as file:
        file.truncate(first[-1].position)
    assert (FIRST, first[-1].position) in whats(check(path))


def test_a_dump_has_a_line_for_everything(stopped: Path) -> None:
    (cookie,) = dump(stopped / "cookie.json")
    assert cookie["bookie_id"] == "b1"
    flip(stopped, records(stopped)[3].position + 90)
    kinds = Counter(line["kind"] for line in dump(stopped / "log" / FIRST))
    assert kinds == {"header": 1, "entries": 14, "fence": 1, "gap": 1}
    index = list(dump(stopped / "index"))
    assert Counter(line["kind"] for line in index) == {"checkpoint": 1, "frame": 15, "ledger": 3, "usage": 3}
    (fenced,) = [line for line in index if line["kind"] == "ledger" and line["fenced"]]
    assert fenced["ledger"] == 2
    with pytest.raises(DataDirectoryError, match="does not belong to a bookie"):
        list(dump(stopped))


def test_a_dump_shows_what_the_log_says_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """States, lost bytes, and which segments there are; what was written of a later kind of state is named."""
    state = LocalLedgerState(7, Fence.DURABLE, known=True, limbo=True)
    disk = OsDisk(tmp_path)
    write_all(
        disk,
        [
            BookieLogRecord(RecordKind.STATE, 7, content=state.encode()),
            BookieLogRecord(RecordKind.STATE, 8, content=b"?"),
            BookieLogRecord(RecordKind.LOST, NO_LEDGER, content=bytes(200)),
            manifest.to_record([0, 3]),
        ],
    )
    lines = [dict(line) for line in dump(tmp_path / FIRST)]
    assert [line["kind"] for line in lines] == ["header", "state", "state", "lost", "segments"]
    assert (lines[1]["ledger"], lines[1]["fenced"], lines[1]["limbo"]) == (7, True, True)
    assert "is truncated" in str(lines[2]["unreadable"])
    assert (lines[3]["ledger"], lines[3]["bytes"]) == (NO_LEDGER, 280)
    assert lines[4]["segments"] == "00000000.log 00000003.log"
