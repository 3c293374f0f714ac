"""Reading entries back: from frames' places to one page of columns.

A frame's record is read whole and its checksum verified before anything of it is served; a record
that cannot be read or verified makes its entry range *damaged*, never absent (rule R6).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

from .disk import Disk, LogFile
from .log import segments
from .log.format import BadRecordBytes, Kind, Record, place_of
from .log.records import Found, read_record
from .places import Place, place_of_frame
from .wire.columns import ENTRY_BYTES_MAX, Columns, merge
from .wire.messages import EntryRange

log = logging.getLogger(__name__)

PAGE_BYTES_MAX = ENTRY_BYTES_MAX
"""Most bytes of one page, all its columns counted, whatever was asked for; one larger entry is a page
alone. So a page always fits into a message."""

OPEN_SEGMENTS_MAX = 64
"""Segment files kept open for reading."""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries of [first asked, covered_through]; what is in neither columns nor damaged is absent."""

    columns: Columns
    covered_through: int
    damaged: tuple[EntryRange, ...]


class SegmentFiles:
    """Open segment files by number, the least recently used closed first. For any thread."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: OrderedDict[int, LogFile] = OrderedDict()
        self._lock = Lock()

    def get(self, segment: int) -> LogFile:
        with self._lock:
            file = self._open.get(segment)
            if file is None:
                file = self._open[segment] = self._disk.open(segments.name_of(segment))
            self._open.move_to_end(segment)
            if len(self._open) > OPEN_SEGMENTS_MAX:
                self._open.popitem(last=False)  # closes when the last reader lets go of it
            return file

    def forget(self, numbers: Iterable[int]) -> None:
        """These segments are about to be deleted."""
        with self._lock:
            for number in numbers:
                self._open.pop(number, None)

    def close(self) -> None:
        with self._lock:
            self._open.clear()


def read_page(
    files: SegmentFiles,
    places: Sequence[Place],
    ledger_id: int,
    first_entry: int,
    last_entry: int,
    bytes_max: int,
) -> EntryPage:
    """The entries of [first_entry, last_entry] found in `places`: ordered, and all that may hold them (`Index.page`).

    About `bytes_max`; not less than what is known of the first entry.
    """
    bytes_max = min(bytes_max, PAGE_BYTES_MAX)
    parts: list[Columns] = []
    damaged: list[EntryRange] = []
    covered, taken = last_entry, 0
    for place in places:
        if taken >= bytes_max and place.first_entry > first_entry:
            covered = min(last_entry, place.first_entry - 1)
            break
        if place.last_entry < first_entry:
            continue
        columns = _frame_at(files, place, ledger_id)
        if columns is None:
            damaged.append(EntryRange(place.first_entry, place.last_entry))
            continue
        part = columns.between(first_entry, last_entry)
        parts.append(part)
        taken += part.total_bytes
    found = merge(parts).between(first_entry, covered)
    if found.total_bytes > PAGE_BYTES_MAX:  # large frames, or frames of many tiny entries
        found = found.start_of(PAGE_BYTES_MAX)
        covered = found.last_entry
    return EntryPage(found, covered, tuple(damaged))


def _frame_at(files: SegmentFiles, place: Place, ledger_id: int) -> Columns | None:
    """The columns of the frame at this place, or None when it cannot be read as what it must be."""
    segment, offset = place_of(place.position)
    try:
        found = read_record(files.get(segment), place.position, place.size)
    except OSError as error:
        log.error("cannot read %s at offset %d: %s", segments.name_of(segment), offset, error)
        return None
    match found:
        case Found(record=Record(kind=Kind.ENTRIES, ledger_id=owner, columns=Columns() as columns)):
            stands = place_of_frame(columns, place.position, found.header.record_bytes)
            if owner == ledger_id and stands == place:
                return columns
            why: object = "the index points at another record"
        case BadRecordBytes():
            why = found
        case _:
            why = "the record holds no entries"
    log.error("damaged record in %s at offset %d: %s", segments.name_of(segment), offset, why)
    return None
