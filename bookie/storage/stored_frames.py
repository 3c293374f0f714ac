"""Reads one frame from the log and verifies that it is the one that the index points to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import NamedTuple

from ..disk.disk import Disk, LogFile
from ..index.frame_locations import FrameLocation, place_of_frame
from ..log import segment_files
from ..log.format import BadRecordBytes, BookieLogRecord, RecordKind, place_of
from ..log.record_reader import Found, read_record
from ..wire.columnar_entries import Columns

OPEN_SEGMENTS_MAX = 64
"""Maximum number of segment files kept open for reading."""

DOUBTED_MAX = 100_000
"""Maximum number of frames remembered as unreadable; for any further frames, the index is trusted."""


class SegmentFiles:
    """Cache of open segment files; closes the least recently used first. Thread-safe.

    `doubted`: positions of frames whose last read failed.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: OrderedDict[int, LogFile] = OrderedDict()
        self._lock = Lock()
        self.doubted: set[int] = set()

    def get(self, segment: int) -> LogFile:
        with self._lock:
            file = self._open.get(segment)
            if file is None:
                file = self._open[segment] = self._disk.open(segment_files.name_of(segment))
            self._open.move_to_end(segment)
            if len(self._open) > OPEN_SEGMENTS_MAX:
                self._open.popitem(last=False)  # the file closes when the last reader drops it
            return file

    def doubt(self, places: Iterable[FrameLocation]) -> None:
        """Remembers these frames as unreadable."""
        self.doubted.update(place.position for place in islice(places, DOUBTED_MAX - len(self.doubted)))

    def forget(self, numbers: Iterable[int]) -> None:
        """Closes segments that are about to be deleted."""
        with self._lock:
            for number in numbers:
                self._open.pop(number, None)

    def close(self) -> None:
        with self._lock:
            self._open.clear()


GIVE_BACK = "; nothing is lost: give the file back to the bookie's user (`chown`)"


class UnreadableFrame(NamedTuple):
    """The reason why a frame cannot be read. `is_damaged`: whether the disk returned content that differs from what the
    index expects."""

    why: str
    is_damaged: bool = True


def why_unread(segment: int, error: OSError) -> str:
    """Explains why the operating system did not return a segment's content, and what to do if the content is intact."""
    problem = f"{segment_files.name_of(segment)}: {error.strerror or error}"
    return problem + GIVE_BACK if isinstance(error, PermissionError) else problem


def read_frame(
    files: SegmentFiles, ledger_id: int, place: FrameLocation, identity: bytes | None = None
) -> Columns | UnreadableFrame:
    """Reads the frame at this place, or explains why it cannot be read; given an identity, reads only a frame of the
    ledger with that identity."""
    segment, offset = place_of(place.position)
    name = segment_files.name_of(segment)
    try:
        found = read_record(files.get(segment), place.position, place.size)
    except OSError as error:
        files.doubt([place])
        return UnreadableFrame(why_unread(segment, error), is_damaged=False)
    match found:
        case Found(record=BookieLogRecord(kind=RecordKind.ENTRIES, columns=Columns() as columns) as record):
            stands = place_of_frame(columns, place.position, found.header.record_bytes)
            if record.ledger_id == ledger_id and stands == place and identity in (None, record.identity):
                files.doubted.discard(place.position)
                return columns
            why: object = "the index points to another record"
        case BadRecordBytes():
            why = found
        case _:
            why = "the record contains no entries"
    files.doubt([place])
    return UnreadableFrame(f"{name} at offset {offset}: {why}")
