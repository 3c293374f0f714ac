"""A bookie on a salvaged directory starts, serves what is whole, and never denies what it has lost (R6)."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from bookie.errors import DamagedLog, DataDirectoryError
from bookie.index.index import Index
from bookie.log import segment_files
from bookie.log.format import SEGMENT_HEADER, BookieLogRecord, RecordKind, record_bytes
from bookie.offline.check import check
from bookie.offline.damage import MISSING
from bookie.offline.log_salvage import SALVAGED, Mended, SalvageOutcome, salvage
from bookie.offline.rebuild import rebuild_index
from bookie.serving import directory
from bookie.wire.messages import Frame, Status
from tests.bookie.bookies import append, bookie_on, damaged_ids, entries, read_request
from tests.bookie.entries import entries_of, frame_of

FIRST, SECOND, THIRD = (segment_files.name_of(n) for n in range(3))
FRAMES = 8
PER_SEGMENT = 3


def frame(n: int) -> Frame:
    return frame_of(7, [2 * n, 2 * n + 1], lac=2 * n - 1)


FRAME_BYTES = record_bytes(
    BookieLogRecord(RecordKind.ENTRIES, 7, frame(0).columns, frame(0).last_add_confirmed)
)


@pytest.fixture
async def stopped(formatted: Path) -> Path:
    """A stopped bookie with one ledger of eight frames, three in a segment, all of them in its index."""
    async with bookie_on(formatted, segment_bytes_max=550) as bookie:
        for n in range(FRAMES):
            assert await append(bookie, frame(n)) == [Status.OK]
        shutil.copytree(formatted, formatted.with_name("killed"))
    return formatted


@pytest.fixture
def killed(stopped: Path) -> Path:
    """The same, killed with nothing in its index."""
    return stopped.with_name("killed")


def offset_of(index: int) -> int:
    """Where the frame of this number begins in its segment."""
    return SEGMENT_HEADER.size + index % PER_SEGMENT * FRAME_BYTES


def flip(path: Path, index: int) -> None:
    """One byte of this frame is another."""
    at = offset_of(index) + 90
    with (path / "log" / segment_files.name_of(index // PER_SEGMENT)).open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def cut(path: Path, name: str, size: int) -> None:
    with (path / "log" / name).open("r+b") as file:
        file.truncate(size)


def salvaged(path: Path) -> tuple[list[Mended], SalvageOutcome]:
    done: list[Mended] = []
    return done, salvage(path, done.append)


def contents(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "lock.mdb"}


async def served(path: Path, *, has_lost: bool | None = None) -> tuple[set[int], set[int]]:
    """Entry ids that a bookie on this directory reads, and those that it calls damaged.

    `has_lost`: whether nobody knows what it has lost. Then the daemon puts the ledgers into limbo before it serves.
    """
    async with bookie_on(path) as bookie:
        assert has_lost is None or bookie.has_lost is has_lost
        reply = await bookie.read(read_request(7, 0, 2 * FRAMES - 1))
        assert entries_of(reply.columns) == entries(7, reply.columns.ids)
        return set(reply.columns.ids), damaged_ids(reply.damaged)


def ids_of(*frames: int) -> set[int]:
    return {entry_id for n in frames for entry_id in (2 * n, 2 * n + 1)}


ALL = ids_of(*range(FRAMES))


def test_a_directory_that_is_whole_is_left_alone(stopped: Path) -> None:
    before = contents(stopped)
    assert salvaged(stopped) == ([], SalvageOutcome("b1", ""))
    assert contents(stopped) == before
    assert not (stopped / SALVAGED).exists()


async def test_what_was_lost_before_the_checkpoint_is_damaged_and_nothing_else_is_doubted(
    stopped: Path,
) -> None:
    for index in (1, 6):
        flip(stopped, index)
    done, outcome = salvaged(stopped)
    assert [(one.file, one.offset) for one in done] == [
        (FIRST, offset_of(1)),
        (THIRD, offset_of(6)),
    ]
    assert outcome == SalvageOutcome("b1", "")
    assert await served(stopped, has_lost=False) == (ALL - ids_of(1, 6), ids_of(1, 6))
    assert salvaged(stopped)[0] == []


def test_a_check_of_a_salvaged_directory_names_the_entries_that_are_lost(stopped: Path) -> None:
    for index in (1, 2, 6):
        flip(stopped, index)
    salvaged(stopped)
    findings = check(stopped)
    assert findings.problems == []
    assert [(one.ledger, one.first_entry, one.last_entry, one.entries) for one in findings.lost] == [
        (7, 2, 5, 4),
        (7, 12, 13, 2),
    ]
    assert [(note.file, note.offset) for note in findings.notes] == [
        (FIRST, offset_of(1)),
        (THIRD, offset_of(6)),
    ]
    assert not findings.is_whole


async def test_what_was_lost_behind_the_checkpoint_may_have_been_anything(killed: Path) -> None:
    flip(killed, 1)
    with pytest.raises(DamagedLog, match=r"00000000\.log .* check.* salvage"):
        await served(killed)
    salvaged(killed)
    assert await served(killed, has_lost=True) == (ALL - ids_of(1), set())


async def test_a_segment_that_the_index_needs_is_missed_at_the_start(stopped: Path) -> None:
    """R6: also where no replay comes near it."""
    (stopped / "log" / FIRST).unlink()
    with pytest.raises(DamagedLog, match=r"00000000\.log is damaged at offset 0"):
        await served(stopped)
    done, _ = salvaged(stopped)
    assert MISSING in done[0].what
    assert await served(stopped, has_lost=False) == (ALL - ids_of(0, 1, 2), ids_of(0, 1, 2))


@pytest.mark.parametrize("zeros", [0, 5000])
async def test_a_log_that_was_cut_before_its_checkpoint_starts_again_and_knows_that_its_end_is_unknown(
    stopped: Path, zeros: int
) -> None:
    """R6: whatever was acknowledged after the checkpoint is gone with it."""
    end = offset_of(7)
    cut(stopped, THIRD, end)
    if zeros:
        cut(stopped, THIRD, end + zeros)
    with pytest.raises(DamagedLog, match=rf"{THIRD} is damaged at offset {end}"):
        await served(stopped)
    before = contents(stopped)
    with pytest.raises(DamagedLog):
        rebuild_index(stopped)
    assert contents(stopped) == before, "the index alone knows what is missing"
    salvaged(stopped)
    assert [(note.file, note.offset) for note in check(stopped).notes] == [(THIRD, end)], "it is one stretch"
    assert await served(stopped, has_lost=True) == (ALL - ids_of(7), ids_of(7))


async def test_a_bookie_goes_on_writing_on_a_salvaged_log(stopped: Path) -> None:
    cut(stopped, THIRD, offset_of(7))
    salvaged(stopped)
    async with bookie_on(stopped) as bookie:
        assert await append(bookie, frame_of(8, range(3))) == [Status.OK]
        assert await bookie.fence(7) == (Status.OK, "")
    assert await served(stopped) == (ALL - ids_of(7), ids_of(7))
    assert check(stopped).problems == []


@pytest.mark.parametrize("lost", ["unusable", "emptied", "gone"])
async def test_an_index_made_of_a_salvaged_log_knows_that_something_was_lost(
    stopped: Path, lost: str
) -> None:
    """R6: nobody knows any more what it was."""
    flip(stopped, 4)
    shutil.rmtree(stopped / "index")
    if lost != "gone":
        (stopped / "index").mkdir()
    if lost == "unusable":
        (stopped / "index" / "data.mdb").write_bytes(b"garbage" * 4000)
    done, outcome = salvaged(stopped)
    assert [(one.file, one.offset) for one in done] == [(SECOND, offset_of(4))]
    assert bool(outcome.index_problem) == (lost != "emptied")
    assert rebuild_index(stopped) == FRAMES - 1
    assert any("the next start puts every ledger into limbo" in note.what for note in check(stopped).notes)
    assert await served(stopped, has_lost=True) == (ALL - ids_of(4), set())


def test_a_checkpoint_that_does_not_fit_the_log_is_called_the_indexs_problem(stopped: Path) -> None:
    index = Index(stopped / "index")
    index.begin_checkpoint()
    index.commit_checkpoint(index.checkpoint_position - 24, [])
    index.end_checkpoint()
    index.close()
    done, outcome = salvaged(stopped)
    assert (done, outcome.index_problem) == ([], "its checkpoint does not fit the log")
    assert [problem.file for problem in check(stopped).problems] == ["index"]
    rebuild_index(stopped)
    assert check(stopped).is_whole


def test_a_bookie_that_runs_is_left_alone(stopped: Path) -> None:
    flip(stopped, 1)
    before = contents(stopped)
    with closing(directory.lock(stopped)), pytest.raises(DataDirectoryError, match="in use"):
        salvaged(stopped)
    assert contents(stopped) == before


def test_a_log_without_any_segment_has_nothing_to_salvage(stopped: Path) -> None:
    for name in (FIRST, SECOND, THIRD):
        (stopped / "log" / name).unlink()
    with pytest.raises(DataDirectoryError, match="this bookie's entries are lost"):
        salvaged(stopped)
