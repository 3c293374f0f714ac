"""What a stopped bookie's directory holds, what is wrong with it and where, and an index made anew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bookie import directory
from bookie.check import Findings, check
from bookie.disk import OsDisk
from bookie.dump import dump
from bookie.errors import DamagedLog, DataDirectoryError
from bookie.index import Index
from bookie.log.format import SEGMENT_HEADER, place_of
from bookie.log.replay import Found
from bookie.log.walk import Gap, Unreadable, walk
from bookie.rebuild import NEW, OLD, rebuild_index
from bookie.wire.messages import Status
from metadata.memory import MemoryStore
from tests.bookie.bookies import append, bookie_on, read
from tests.bookie.entries import frame_of
from tests.bookie.logs import INCARNATION, use_small_sizes
from tests.support.aio import run

FIRST = "00000000.log"


def stopped_bookie(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with three ledgers of a few frames each, a fence, and everything in the index."""
    monkeypatch.setattr("uuid.uuid4", lambda: INCARNATION)

    async def make() -> None:
        await directory.format_directory(path, "b1", MemoryStore())
        async with bookie_on(path) as bookie:
            for n in range(5):
                frames = [frame_of(ledger, [2 * n, 2 * n + 1], lac=2 * n - 1) for ledger in (1, 2, 3)]
                assert await append(bookie, *frames) == [Status.OK] * 3
            assert await bookie.fence(2) == (Status.OK, "")

    run(make())
    return path


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return stopped_bookie(tmp_path / "b1", monkeypatch)


def records(path: Path) -> list[Found]:
    return [found for found in walk(OsDisk(path / "log"), 0) if isinstance(found, Found)]


def flip(path: Path, offset: int) -> None:
    data = bytearray((path / "log" / FIRST).read_bytes())
    data[offset] ^= 1
    (path / "log" / FIRST).write_bytes(data)


def whats(findings: Findings) -> list[tuple[str, int]]:
    return [(problem.file, problem.offset) for problem in findings.problems]


def test_a_whole_directory_has_nothing_wrong_with_it(stopped: Path) -> None:
    findings = check(stopped)
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
    with pytest.raises(DamagedLog):
        rebuild_index(stopped)


def test_every_flipped_byte_of_the_log_is_noticed(stopped: Path) -> None:
    size = (stopped / "log" / FIRST).stat().st_size
    pristine = (stopped / "log" / FIRST).read_bytes()
    for offset in range(0, size, 37):
        flip(stopped, offset)
        findings = check(stopped)
        assert findings.problems or findings.notes, f"byte {offset}"
        (stopped / "log" / FIRST).write_bytes(pristine)


def test_a_torn_tail_is_a_note_and_no_problem_of_the_log(stopped: Path) -> None:
    """The bookie cuts it when it starts; here the index knows the record, which is a problem of its own."""
    last = records(stopped)[-1]
    with (stopped / "log" / FIRST).open("r+b") as file:
        file.truncate(last.position + 40)
    findings = check(stopped)
    assert [(note.file, note.offset) for note in findings.notes] == [(FIRST, last.position)]
    assert not [problem for problem in findings.problems if problem.file == FIRST]


def test_a_missing_segment_is_named(stopped: Path) -> None:
    shutil.copy(stopped / "log" / FIRST, stopped / "log" / "00000002.log")
    assert ("00000001.log", 0) in whats(check(stopped))


def test_a_segment_of_another_bookie_is_named(stopped: Path, tmp_path: Path) -> None:
    data = (stopped / "log" / FIRST).read_bytes()
    assert data[:8] == b"bkldglog"
    other = tmp_path / "other"

    async def make() -> None:
        await directory.format_directory(other, "b2", MemoryStore())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uuid.uuid4", lambda: "5f0e8e6c-66b0-4f3e-9d0c-2b1f6f0d8a12")
        run(make())
    shutil.copy(stopped / "log" / FIRST, other / "log" / FIRST)
    assert (FIRST, 0) in whats(check(other))


def change_index(path: Path, change: Callable[[Index], None]) -> None:
    index = Index(path / "index")
    change(index)
    index.close()


def test_an_index_that_lacks_a_frame_or_has_one_too_many_is_noticed_and_made_anew(stopped: Path) -> None:
    def drop_one(index: Index) -> None:
        with index._env.begin(write=True, db=index._places) as txn:
            cursor = txn.cursor()
            assert cursor.first() and cursor.delete()

    def add_one(index: Index) -> None:
        ((ledger_id, place), *_) = index.places()
        index.add(ledger_id, place._replace(position=place.position + 8))
        index.begin_checkpoint()
        index.commit_checkpoint(index.checkpoint_position, [])
        index.end_checkpoint()

    change_index(stopped, drop_one)
    (problem,) = check(stopped).problems
    assert "lacks the frame of ledger 1" in problem.what and "rebuild-index" in problem.what
    change_index(stopped, add_one)
    assert len(check(stopped).problems) == 2
    assert rebuild_index(stopped) == 15
    assert check(stopped).problems == []


def test_an_index_that_is_gone_or_garbage_is_made_anew_and_the_bookie_serves_all_of_it(stopped: Path) -> None:
    shutil.rmtree(stopped / "index")
    (stopped / "index").mkdir()
    (stopped / "index" / "data.mdb").write_bytes(b"garbage" * 4000)
    assert [problem.file for problem in check(stopped).problems] == ["index"]
    assert rebuild_index(stopped) == 15

    async def served() -> None:
        async with bookie_on(stopped) as bookie:
            assert [e[0] for e in await read(bookie, 3, 0, 9)] == list(range(10))
            assert await append(bookie, frame_of(2, [10])) == [Status.FENCED], "fences come from the log too"

    run(served())


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


def test_a_bookie_that_runs_is_left_alone(stopped: Path) -> None:
    async def beside() -> None:
        locked = directory.lock(stopped)
        try:
            for work in (check, rebuild_index):
                with pytest.raises(DataDirectoryError, match="in use"):
                    await asyncio.to_thread(work, stopped)
        finally:
            locked.close()

    run(beside())


def test_a_walk_says_what_lies_between_records(stopped: Path) -> None:
    third = records(stopped)[2]
    flip(stopped, third.position + 8)
    found = list(walk(OsDisk(stopped / "log"), 0, INCARNATION))
    (gap,) = [one for one in found if isinstance(one, Unreadable)]
    assert (gap.offset, gap.end) == (third.position, third.position + third.header.record_bytes)
    assert gap.what is Gap.DAMAGE
    assert sum(isinstance(one, Found) for one in found) == 15
    assert records(stopped)[0].position == SEGMENT_HEADER.size


def test_a_segment_cut_between_two_records_is_noticed_by_what_the_next_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_sizes(monkeypatch, segment=1024, group=512)
    path = stopped_bookie(tmp_path / "b1", monkeypatch)
    assert check(path).problems == []
    first = records(path)
    with (path / "log" / FIRST).open("r+b") as file:
        file.truncate(first[-1].position)
    assert (FIRST, first[-1].position) in whats(check(path))


def test_a_dump_has_a_line_for_everything(stopped: Path) -> None:
    (cookie,) = dump(stopped / "cookie.json")
    assert cookie["bookie_id"] == "b1"
    flip(stopped, records(stopped)[3].position + 90)
    kinds = [line["kind"] for line in dump(stopped / "log" / FIRST)]
    assert (kinds.count("entries"), kinds.count("fence"), kinds.count("gap")) == (14, 1, 1)
    index = list(dump(stopped / "index"))
    assert [line["kind"] for line in index].count("frame") == 15
    (fenced,) = [line for line in index if line["kind"] == "ledger" and line["fenced"]]
    assert fenced["ledger"] == 2
    with pytest.raises(DataDirectoryError, match="none of a bookie's files"):
        list(dump(stopped))
