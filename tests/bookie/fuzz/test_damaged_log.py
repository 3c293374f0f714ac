"""Whatever became of the log's bytes: a record that is read was written there, none is taken for absent (B2, R6)."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bookie.errors import DamagedLog
from bookie.index.frame_locations import FrameLocation, place_of_frame
from bookie.log import segment_files
from bookie.log.format import BODY_BYTES_MAX, RECORD_HEADER, SEGMENT_HEADER, place_of, position_of
from bookie.log.log_replay import replay
from bookie.log.record_reader import Found, position_end
from bookie.log.segment_walk import UnreadableRecord, walk
from bookie.storage.page_reader import read_page
from bookie.storage.stored_frames import SegmentFiles
from tests.bookie.entries import entries_of
from tests.bookie.fuzz.logs import (
    FILES,
    FOUND,
    Files,
    WatchedDisk,
    damage,
    header_is_whole,
    is_whole,
    of_segment,
    watched_disk,
)
from tests.bookie.fuzz.mutations import Change, Insert, changed
from tests.bookie.logs import INCARNATION

NAMES = sorted(FILES)
NEWEST = len(NAMES) - 1
READ_BYTES_MAX = RECORD_HEADER.size + BODY_BYTES_MAX
STARTS = [0, *(found.position for found in FOUND), position_end(FOUND[-1])]
"""Where a checkpoint may say that the log must be read from."""

damaged_files = st.dictionaries(st.sampled_from(NAMES), damage, min_size=1, max_size=2)


def after(changes: dict[str, tuple[Change, ...]]) -> dict[str, bytes]:
    return {name: changed(data, changes.get(name, ())) for name, data in FILES.items()}


# --- a whole log, read at a start


def what_replay_must_find(files: Files, start: int) -> list[Found] | None:
    """The obvious way to say what `replay` finds from `start` on; None where it must refuse."""
    expected: list[Found] = []
    for segment in range(place_of(start)[0], NEWEST + 1):
        begin = max(start, position_of(segment, SEGMENT_HEADER.size))
        if segment == NEWEST and is_unbegun(files) and begin == position_of(NEWEST, SEGMENT_HEADER.size):
            return expected
        size = len(files[segment_files.name_of(segment)])
        if not header_is_whole(segment, files) or size < place_of(begin)[1]:
            return None
        wanted = [found for found in of_segment(segment) if found.position >= begin]
        whole = [found for found in wanted if is_whole(found, files)]
        prefix = [found for found, there in zip(wanted, whole, strict=False) if found == there]
        end = position_end(prefix[-1]) if prefix else begin
        if segment == NEWEST and any(found.header.synced > end for found in whole):
            return None
        if segment < NEWEST and not ends_as_it_did(files, segment, end):
            return None
        expected += prefix
    return expected


def is_unbegun(files: Files) -> bool:
    """Whether the newest segment looks as if the crash had come before its header was written."""
    return not header_is_whole(NEWEST, files) and len(files[NAMES[NEWEST]]) <= SEGMENT_HEADER.size


def ends_as_it_did(files: Files, segment: int, end: int) -> bool:
    """Whether a sealed segment has all its records; the next one knows, where it has a header."""
    name = segment_files.name_of(segment)
    lost = end < position_of(segment, len(FILES[name])) and not (segment + 1 == NEWEST and is_unbegun(files))
    return not lost and len(files[name]) <= place_of(end)[1]


@settings(max_examples=300)
@given(damaged_files, st.sampled_from(STARTS))
@example({NAMES[0]: (Insert(len(FILES[NAMES[0]]), bytes(8)),)}, 0).via(
    "a sealed segment that is longer than it was"
)
def test_replay_finds_what_is_whole_up_to_a_torn_tail_and_refuses_what_was_on_disk_once(
    changes: dict[str, tuple[Change, ...]], start: int
) -> None:
    """B2: exactly that, whatever the damage, and again the next time."""
    files = after(changes)
    disk = watched_disk(files)
    expected = what_replay_must_find(files, start)
    for _ in range(2):
        if expected is None:
            with pytest.raises(DamagedLog):
                list(replay(disk, INCARNATION, start))
        else:
            assert list(replay(disk, INCARNATION, start)) == expected
        if is_unbegun(files):
            break  # the segment is removed, and who starts in it is refused
    assert disk.read_bytes_max <= READ_BYTES_MAX
    if expected is None:
        assert disk.contents() == files, "a log that is refused is left as it is"
    elif not is_unbegun(files):
        begin = max(start, position_of(NEWEST, SEGMENT_HEADER.size))
        end = place_of(max([begin, *(position_end(found) for found in expected)]))[1]
        kept = files[NAMES[NEWEST]][:end].ljust(end, b"\0")  # a record's padding says nothing
        assert disk.durable_contents()[NAMES[NEWEST]] == kept, "the torn tail is cut"


# --- a segment, read by a human


@given(st.sampled_from(NAMES), damage)
def test_a_walk_gives_every_whole_record_and_says_what_lies_between(
    name: str, by: tuple[Change, ...]
) -> None:
    files = {**FILES, name: changed(FILES[name], by)}
    disk, segment = watched_disk(files), NAMES.index(name)
    seen = list(walk(disk, segment, INCARNATION))
    found = [one for one in seen if isinstance(one, Found)]
    assert found == [one for one in of_segment(segment) if is_whole(one, files)]
    stretches = [extent(one) for one in seen]
    if not header_is_whole(segment, files):
        assert stretches.pop(0) == (0, SEGMENT_HEADER.size)
    assert [start for start, _ in stretches] == [SEGMENT_HEADER.size, *(end for _, end in stretches)][:-1]
    assert not stretches or stretches[-1][1] >= len(files[name])
    assert disk.read_bytes_max <= READ_BYTES_MAX


def extent(one: Found | UnreadableRecord) -> tuple[int, int]:
    if isinstance(one, UnreadableRecord):
        return one.offset, one.end
    offset = place_of(one.position)[1]
    return offset, offset + one.header.record_bytes


# --- pages


PLACES = [
    (found.record.ledger_id, place)
    for found in FOUND
    if (place := place_of_frame(found.record.columns, found.position, found.header.record_bytes)) is not None
]
LEDGERS = sorted({ledger_id for ledger_id, _ in PLACES})


def places_of(ledger_id: int) -> list[FrameLocation]:
    return sorted(place for owner, place in PLACES if owner == ledger_id)


def entries_written(ledger_id: int) -> dict[int, tuple[int, bytes, bytes]]:
    return {
        entry[0]: entry
        for found in FOUND
        if found.record.ledger_id == ledger_id and found.record.columns is not None
        for entry in entries_of(found.record.columns)
    }


def check_page(files: Files, places: list[FrameLocation], ledger_id: int) -> WatchedDisk:
    """R6: every entry is served as it was written, or damaged; none is absent."""
    disk = watched_disk(files)
    written = entries_written(ledger_id)
    page = read_page(SegmentFiles(disk), places, ledger_id, 0, max(written), bytes_max=1 << 20)
    served = {entry[0]: entry for entry in entries_of(page.columns)}
    assert served.items() <= written.items()
    damaged = {i for one in page.damaged for i in range(one.first_entry, one.last_entry + 1)}
    assert page.covered_through == max(written)
    assert written.keys() <= served.keys() | damaged, "an entry that was acknowledged is denied"
    return disk


@given(damaged_files, st.sampled_from(LEDGERS))
def test_an_entry_in_a_damaged_log_is_damaged_or_right_and_never_absent(
    changes: dict[str, tuple[Change, ...]], ledger_id: int
) -> None:
    disk = check_page(after(changes), places_of(ledger_id), ledger_id)
    assert disk.read_bytes_max <= READ_BYTES_MAX


positions = st.sampled_from([found.position for found in FOUND]) | st.integers(0, 2**64 - 1)


@given(st.data(), st.sampled_from(LEDGERS))
def test_a_place_that_points_elsewhere_makes_its_entries_damaged_and_never_absent(
    data: st.DataObject, ledger_id: int
) -> None:
    """R6: the index has no checksums; what it says of a record must be what the record says."""
    places = places_of(ledger_id)
    number = data.draw(st.integers(0, len(places) - 1))
    place = places[number]
    places[number] = data.draw(
        st.sampled_from(
            [
                place._replace(position=data.draw(positions)),
                place._replace(entries=data.draw(st.integers(0, 2**32 - 1))),
            ]
        )
    )
    check_page(FILES, places, ledger_id)


@pytest.mark.parametrize("size", [1, 79, 81, 2**16, 2**31, 2**32 - 1])
def test_a_place_with_a_wrong_size_makes_nobody_read_more_than_a_record(size: int) -> None:
    for ledger_id in LEDGERS:
        places = [place._replace(size=size) for place in places_of(ledger_id)]
        disk = check_page(FILES, places, ledger_id)
        assert disk.read_bytes_max <= READ_BYTES_MAX


@pytest.mark.parametrize("body_bytes", [0, 1, BODY_BYTES_MAX, BODY_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_a_record_that_claims_any_length_makes_nobody_read_more_than_a_record(body_bytes: int) -> None:
    for found in FOUND:
        segment, offset = place_of(found.position)
        name = segment_files.name_of(segment)
        lied = bytearray(FILES[name])
        lied[offset + 28 : offset + 32] = struct.pack("<I", body_bytes)
        disk = watched_disk({**FILES, name: bytes(lied)})
        list(walk(disk, segment, INCARNATION))
        with contextlib.suppress(DamagedLog):
            list(replay(disk, INCARNATION, 0))
        assert disk.read_bytes_max <= READ_BYTES_MAX
