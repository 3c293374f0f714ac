"""R6: a page tells what is here, what is damaged, and how far it speaks; it never denies what it did not see.

Limbo: bookie/upkeep/test_repair.py; what a recovery makes of such answers: scenarios/test_recovering_a_ledger.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.index.frame_locations import FrameLocation
from bookie.log.format import SEGMENT_HEADER, BookieLogRecord, RecordKind
from bookie.storage import stored_frames
from bookie.storage.page_reader import PAGE_BYTES_MAX, EntryPage, read_page
from bookie.storage.stored_frames import SegmentFiles
from bookie.wire.columnar_entries import ENTRY_BYTES_MAX, NO_ENTRIES, Columns
from bookie.wire.grpc_methods import MESSAGE_BYTES_MAX
from bookie.wire.messages import EntryRange
from tests.bookie.entries import Entry, columns_of, entries_of, entry_of, frame_of
from tests.bookie.logs import fence_of, write_all
from tests.bookie.simulated_disk import SimulatedDisk

LEDGER = 7
NO_LIMIT = 2**32 - 1


class Stored:
    """Frames of one ledger in a log, and their places as the index gives them."""

    def __init__(self, frames: Sequence[Columns], ledger_id: int = LEDGER) -> None:
        self.disk = SimulatedDisk(Random(0))
        reports = write_all(
            self.disk, [BookieLogRecord(RecordKind.ENTRIES, ledger_id, columns) for columns in frames]
        )
        self.in_log_order = [
            FrameLocation(
                columns.first_entry, written.position, columns.last_entry, len(columns), written.size
            )
            for columns, written in zip(frames, reports.durable, strict=True)
        ]
        self.files = SegmentFiles(self.disk)

    def page(self, first: int, last: int, bytes_max: int = NO_LIMIT) -> EntryPage:
        places = sorted(p for p in self.in_log_order if p.first_entry <= last and p.last_entry >= first)
        return read_page(self.files, places, LEDGER, first, last, bytes_max)

    def damage(self, index: int) -> None:
        """One byte of this frame's record is another one."""
        self.disk.overwrite("00000000.log", (self.in_log_order[index].position & 0xFFFFFFFF) + 85, b"?")


def of_ids(*entry_ids: int, payload_bytes: int = 20) -> Columns:
    return frame_of(LEDGER, entry_ids, payload_bytes=payload_bytes).columns


def entries(*entry_ids: int) -> list[Entry]:
    return [entry_of(LEDGER, entry_id) for entry_id in entry_ids]


def test_R6_a_missing_segment_makes_its_entries_damaged_never_absent() -> None:
    stored = Stored([of_ids(0, 1)])
    stored.disk.lose("00000000.log")
    why = "00000000.log: No such file or directory"
    assert stored.page(0, 9) == EntryPage(NO_ENTRIES, 9, (EntryRange(0, 1),), why)


def test_R6_a_disk_that_cannot_be_read_makes_entries_damaged_never_absent() -> None:
    stored = Stored([of_ids(0, 1)])
    stored.files.get(0)
    stored.disk.power_off_before(0)
    assert stored.page(0, 9) == EntryPage(
        NO_ENTRIES, 9, (EntryRange(0, 1),), "00000000.log: the power is off"
    )


def test_why_a_copy_could_not_be_read_is_told_of_the_first_entry_that_is_not_given() -> None:
    stored = Stored([of_ids(0, 1), of_ids(2, 3)])
    stored.damage(0)
    second = stored.in_log_order[1].position & 0xFFFFFFFF
    stored.disk.fail_reads("00000000.log", second, second + 1)
    both = (EntryRange(0, 1), EntryRange(2, 3))
    assert stored.page(0, 9) == EntryPage(NO_ENTRIES, 9, both, "")
    page = stored.page(2, 9)
    assert page.damaged == both[1:] and page.why_unread.startswith("00000000.log: ")


def test_R6_a_place_that_points_at_something_else_is_damaged_never_absent() -> None:
    """R6: another ledger's record, a fence, another frame, the middle of a record."""
    disk = SimulatedDisk(Random(0))
    records = [BookieLogRecord(RecordKind.ENTRIES, 8, frame_of(8, [0]).columns), fence_of(LEDGER)]
    records.append(BookieLogRecord(RecordKind.ENTRIES, LEDGER, of_ids(0, 1)))
    reports = write_all(disk, records)
    files = SegmentFiles(disk)
    positions = [written.position for written in reports.durable]
    for position in (*positions, positions[0] + 8, SEGMENT_HEADER.size - 8):
        page = read_page(files, [FrameLocation(0, position, 0, 1, 128)], LEDGER, 0, 0, NO_LIMIT)
        assert page == EntryPage(NO_ENTRIES, 0, (EntryRange(0, 0),))


def test_a_page_ends_when_it_is_full_and_says_how_far_it_speaks() -> None:
    page = Stored([of_ids(0, 1), of_ids(5, 6), of_ids(8)]).page(0, 9, bytes_max=10)
    assert (entries_of(page.columns), page.covered_through) == (entries(0, 1), 4)


def test_a_page_takes_at_least_the_first_frame_however_few_bytes_were_asked_for() -> None:
    page = Stored([of_ids(0, 1), of_ids(2)]).page(0, 9, bytes_max=0)
    assert (entries_of(page.columns), page.covered_through) == (entries(0, 1), 1)


def test_a_page_takes_one_more_frame_while_a_byte_of_it_is_left() -> None:
    stored, size = Stored([of_ids(0), of_ids(1), of_ids(2)]), of_ids(0).size_bytes
    for bytes_max, through in ((size, 0), (size + 1, 1), (2 * size, 1), (2 * size + 1, 9)):
        page = stored.page(0, 9, bytes_max)
        assert (page.columns.last_entry, page.covered_through) == (min(through, 2), through)


def test_a_page_of_large_frames_fits_into_a_message() -> None:
    size = PAGE_BYTES_MAX * 2 // 3
    stored = Stored([of_ids(0, 1, payload_bytes=size), of_ids(2, payload_bytes=size)])
    page = stored.page(0, 2)
    assert (list(page.columns.ids), page.covered_through) == ([0], 0)
    assert entries_of(stored.page(1, 2).columns) == [entry_of(LEDGER, 1, size)]


def test_the_largest_entry_fits_into_a_message() -> None:
    page = Stored([of_ids(0), of_ids(1, payload_bytes=ENTRY_BYTES_MAX), of_ids(2)]).page(1, 2)
    assert (list(page.columns.ids), page.covered_through) == ([1], 1)
    assert page.columns.size_bytes < MESSAGE_BYTES_MAX


def test_a_page_of_entries_without_payload_fits_into_a_message() -> None:
    """Ids, lengths and digests count, too: a ledger of tiny entries must stay readable."""
    per_frame = 10_000
    frames = [
        columns_of([(entry_id, b"", bytes(32)) for entry_id in range(first, first + per_frame)])
        for first in range(0, 20 * per_frame, per_frame)
    ]
    page = Stored(frames).page(0, 20 * per_frame)
    assert page.columns.size_bytes <= PAGE_BYTES_MAX
    assert page.covered_through == page.columns.last_entry == len(page.columns) - 1
    assert len(page.columns) > PAGE_BYTES_MAX // 100


id_sets = st.sets(st.integers(0, 30), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(id_sets, min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 200),
)
def test_R6_pages_one_after_the_other_say_of_each_entry_exactly_what_is_true(
    frames: list[set[int]], damaged: set[int], a: int, b: int, bytes_max: int
) -> None:
    """R6: whole copies are served; what has only damaged copies is damaged; what is denied was never here."""
    stored = Stored([of_ids(*sorted(ids)) for ids in frames])
    for index in damaged & set(range(len(frames))):
        stored.damage(index)
    whole = set().union(*[ids for n, ids in enumerate(frames) if n not in damaged])
    held = set().union(*frames)
    first, last = sorted((a, b))
    while first <= last:
        page = stored.page(first, last, bytes_max)
        assert first <= page.covered_through <= last
        served = entries_of(page.columns)
        said = range(first, page.covered_through + 1)
        assert served == [entry_of(LEDGER, i) for i in said if i in whole]
        for entry_id in said:
            in_damaged = any(r.first_entry <= entry_id <= r.last_entry for r in page.damaged)
            assert entry_id in whole or in_damaged or entry_id not in held
        first = page.covered_through + 1


def test_the_least_recently_read_segment_is_closed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_frames, "OPEN_SEGMENTS_MAX", 2)
    disk = SimulatedDisk(Random(0))
    for number in range(3):
        write_all(disk, [], segment=number)
    files = SegmentFiles(disk)
    zero, one = files.get(0), files.get(1)
    assert files.get(0) is zero
    files.get(2)
    assert files.get(0) is zero
    assert files.get(1) is not one
