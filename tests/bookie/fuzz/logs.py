"""A log in three segments as the real writer leaves it, a disk that counts what is asked of it, and the obvious truth.

The truth about a damaged log is simple here, because the undamaged one is known: a record is there if each of its
bytes is what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.log import group_commit as writer_module
from bookie.log import segment_files
from bookie.log.format import RECORD_HEADER, SEGMENT_HEADER, BookieLogRecord, RecordKind, place_of
from bookie.log.record_reader import Found
from tests.bookie.entries import frame_of, lac_of
from tests.bookie.fuzz.mutations import changes
from tests.bookie.logs import WAIT_SECONDS_MAX, fence_of, found_in, record_of, use_small_sizes, writer_on
from tests.bookie.platter import Inode
from tests.bookie.simulated_disk import SimulatedDisk, disk_with

Files = Mapping[str, bytes]

PUT_OFF = frozenset({2, 3, 11, 12})
"""Records whose sync is deferred, by their number: the next ones say of less that it was on disk."""


def _records() -> list[BookieLogRecord]:
    recovered = frame_of(2, [4, 5, 6], lac=3, recovery=True)
    state = LocalLedgerState(3, Fence.DURABLE, known=True, last_add_confirmed=lac_of(7), verifier=b"v" * 32)
    return [
        record_of(1, [0]),
        record_of(1, [1]),
        record_of(2, [0, 1, 2]),
        record_of(1, [2, 3], payload_bytes=90),
        fence_of(2),
        BookieLogRecord(
            RecordKind.ENTRIES, 2, recovered.columns, recovered.last_add_confirmed, recovery=True
        ),
        record_of(1, [4]),
        BookieLogRecord(RecordKind.ENTRIES, 1, frame_of(1, []).columns, lac_of(4)),
        record_of(1, [5, 7]),
        BookieLogRecord(RecordKind.ENTRIES, 3, frame_of(3, [8]).columns, None, verifier=b"v" * 32),
        BookieLogRecord(RecordKind.STATE, 3, content=state.encode()),
        record_of(1, [8], payload_bytes=300),
        record_of(1, [9]),
        record_of(1, [10]),
        record_of(1, [11]),
    ]


RECORDS = _records()


def written_log() -> dict[str, bytes]:
    """The files of a log of RECORDS, as a crash right behind the last sync would leave them."""
    disk = SimulatedDisk(Random(0))
    with pytest.MonkeyPatch.context() as patch:
        use_small_sizes(patch, segment=1024, group=512)
        patch.setattr(writer_module, "DEFERRED_SYNC_SECONDS_MAX", WAIT_SECONDS_MAX)
        writer, reports = writer_on(disk)
        writer.start()
        for count, record in enumerate(RECORDS, 1):
            put_off = count - 1 in PUT_OFF
            writer.submit(record, record, deferred_sync=put_off)
            if put_off:
                reports.wait_for(written=len([n for n in PUT_OFF if n < count]))
            else:
                reports.wait_for(durable=count)
        files = disk.contents()
        writer.stop()
    return files


FILES = written_log()
FOUND = found_in(disk_with(FILES.items(), Random(0)))
"""Every record of the undamaged log and where it stands."""

assert [found.record for found in FOUND] == RECORDS
assert len(FILES) == 3

EDGES = sorted({place_of(found.position)[1] for found in FOUND} | set(map(len, FILES.values())))
LENGTHS = sorted({found.header.record_bytes for found in FOUND})
"""Where records begin and segments end, and how long records are: damage is cruellest there."""

damage = changes(EDGES, LENGTHS)


class WatchedDisk(SimulatedDisk):
    """Remembers the most that was asked for at once: what a reader would have allocated."""

    read_bytes_max = 0

    def read_of(self, inode: Inode, size: int, offset: int) -> bytes:
        self.read_bytes_max = max(self.read_bytes_max, size)
        return super().read_of(inode, size, offset)


def watched_disk(files: Files) -> WatchedDisk:
    """A disk that holds these files, durable."""
    disk = WatchedDisk(Random(0))
    for name, data in files.items():
        file = disk.create(name)
        file.write([data], 0)
        file.datasync()
    disk.sync_directory()
    return disk


def is_whole(found: Found, files: Files) -> bool:
    """Whether each byte of this record is what it was."""
    segment, offset = place_of(found.position)
    name, end = segment_files.name_of(segment), offset + RECORD_HEADER.size + found.header.body_bytes
    return files[name][offset:end] == FILES[name][offset:end]


def header_is_whole(segment: int, files: Files) -> bool:
    """Whether the segment's header is what it was."""
    name, size = segment_files.name_of(segment), SEGMENT_HEADER.size
    return files[name][:size] == FILES[name][:size]


def of_segment(segment: int) -> list[Found]:
    return [found for found in FOUND if place_of(found.position)[0] == segment]
