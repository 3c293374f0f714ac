"""Whatever became of a stopped bookie's files: `check` notices, `dump` shows, `rebuild` makes no wrong index (B2)."""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.disk.disk import OsDisk
from bookie.errors import BookieError, DamagedLog, DataDirectoryError
from bookie.index.frame_locations import FrameLocation
from bookie.index.index import Index
from bookie.log.format import RECORD_HEADER, SEGMENT_HEADER, place_of
from bookie.log.record_reader import Found
from bookie.log.segment_walk import walk
from bookie.offline.check import check
from bookie.offline.dump import dump
from bookie.offline.rebuild import rebuild_index
from bookie.serving.directory import COOKIE, format_directory
from bookie.wire.messages import Status
from metadata.memory_store import MemoryStore
from tests.bookie.bookies import append, bookie_on, entries, read
from tests.bookie.entries import frame_of
from tests.bookie.fuzz.mutations import Change, changed, changes
from tests.bookie.logs import INCARNATION, use_small_sizes
from tests.support.aio import run

LEDGERS = (1, 2, 3)
COOKIE_BYTES = json.dumps(
    {
        "version": 1,
        "cluster_id": INCARNATION,
        "bookie_id": "b1",
        "incarnation": INCARNATION,
        "predecessors": [],
    }
).encode()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a bookie that was stopped: some segments, three ledgers, a fence."""
    path = tmp_path_factory.mktemp("directory") / "b1"

    async def make() -> None:
        await format_directory(path, "b1", MemoryStore())
        async with bookie_on(path) as bookie:
            for n in range(6):
                frames = [frame_of(ledger, [2 * n, 2 * n + 1], lac=2 * n - 1) for ledger in LEDGERS]
                assert await append(bookie, *frames) == [Status.OK] * 3
            assert await bookie.fence(2) == (Status.OK, "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uuid.uuid4", lambda: INCARNATION)
        use_small_sizes(patch, segment=1500, group=512)
        run(make())
    return path


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an example has a directory of its own; made anew by `damaged`."""
    return tmp_path_factory.mktemp("copies") / "b1"


NAMES = ("00000000.log", "00000001.log", "00000002.log")
EDGES = [SEGMENT_HEADER.size + 160 * n for n in range(8)]
damage = changes(EDGES, [160, 320])
damaged_files = st.dictionaries(st.sampled_from(NAMES), damage, min_size=1, max_size=2)
Changes = dict[str, tuple[Change, ...]]


def damaged(stopped: Path, copy: Path, files: Changes) -> Path:
    """A copy with these files of its log changed."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(stopped, copy, ignore=shutil.ignore_patterns("reserve"))
    for name, by in files.items():
        (copy / "log" / name).write_bytes(changed((stopped / "log" / name).read_bytes(), by))
    return copy


def records(path: Path) -> list[Found]:
    disk = OsDisk(path / "log")
    return [one for segment in range(len(NAMES)) for one in walk(disk, segment) if isinstance(one, Found)]


def bytes_that_say_something(path: Path, of: list[Found]) -> list[bytes]:
    """All headers, and these records without their padding."""
    data = [(path / "log" / name).read_bytes() for name in NAMES]
    parts = [one[: SEGMENT_HEADER.size] for one in data]
    for found in of:
        segment, offset = place_of(found.position)
        parts.append(data[segment][offset : offset + RECORD_HEADER.size + found.header.body_bytes])
    return parts


@given(damaged_files)
def test_a_check_notices_whatever_is_not_as_it_was(stopped: Path, copy: Path, files: Changes) -> None:
    path, written = damaged(stopped, copy, files), records(stopped)
    findings = check(path)
    assert findings.records == len(records(path))
    if bytes_that_say_something(path, written) != bytes_that_say_something(stopped, written):
        assert findings.problems or findings.notes
    if findings.records < len(written):
        assert findings.problems, "what the index points to is not there"


@given(damaged_files)
def test_a_dump_has_a_line_for_each_record_and_each_gap(stopped: Path, copy: Path, files: Changes) -> None:
    path = damaged(stopped, copy, files)
    for segment, name in enumerate(NAMES):
        seen = list(walk(OsDisk(path / "log"), segment))
        starts = [place_of(one.position)[1] if isinstance(one, Found) else one.offset for one in seen]
        lines = [
            offset for line in dump(path / "log" / name) if isinstance(offset := line.get("offset"), int)
        ]
        assert behind_the_header(lines) == behind_the_header(starts)


def behind_the_header(offsets: list[int]) -> list[int]:
    return [offset for offset in offsets if offset >= SEGMENT_HEADER.size]


@settings(max_examples=40)
@given(damaged_files)
def test_an_index_made_anew_points_to_whole_records_or_is_not_made(
    stopped: Path, copy: Path, files: Changes
) -> None:
    """B2: what it points to is what was written; where the log is refused the old index stays."""
    path = damaged(stopped, copy, files)
    before = list(dump(path / "index"))
    try:
        rebuild_index(path)
    except DamagedLog:
        assert list(dump(path / "index")) == before
        return
    with closing(Index(path / "index")) as index:
        assert set(index.places()) <= all_places(stopped)
    assert check(path).problems == []


def all_places(path: Path) -> set[tuple[int, FrameLocation]]:
    with closing(Index(path / "index")) as index:
        return set(index.places())


@given(st.binary(max_size=200) | changes().map(lambda by: changed(COOKIE_BYTES, by)))
def test_a_directory_with_a_damaged_cookie_is_checked_by_what_it_says_or_refused(
    stopped: Path, copy: Path, data: bytes
) -> None:
    path = damaged(stopped, copy, {})
    (path / COOKIE).write_bytes(data)
    with suppress(DataDirectoryError):
        findings = check(path)
        (line,) = dump(path / COOKIE)
        assert bool(findings.problems) == (line["incarnation"] != INCARNATION)


@pytest.mark.parametrize("bits", [range(11), range(11, 32), range(32, 64)], ids=["near", "offset", "segment"])
def test_no_flipped_bit_of_the_checkpoint_costs_a_record(stopped: Path, copy: Path, bits: range) -> None:
    """B2: a log that is whole is not cut where the index says that it ends; the bookie serves it all or refuses."""
    for bit in bits:
        path = damaged(stopped, copy, {})
        index = Index(path / "index")
        with index._writing() as txn:
            index._meta.put(txn, b"checkpoint", struct.pack("<Q", index.checkpoint_position ^ 1 << bit))
        index.close()
        run(serves_all_or_refuses(path))
        written = [(stopped / "log" / name).read_bytes() for name in NAMES]
        assert [(path / "log" / name).read_bytes() for name in NAMES] == written


async def serves_all_or_refuses(path: Path) -> None:
    try:
        async with bookie_on(path) as bookie:
            for ledger_id in LEDGERS:
                assert await read(bookie, ledger_id, 0, 11) == entries(ledger_id, range(12))
    except BookieError:
        return
