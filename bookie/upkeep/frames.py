"""One frame of the log, read and held against what the index says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..log import segments
from ..log.format import BadRecordBytes, Kind, Record, place_of
from ..log.records import Found, read_record
from ..places import Place, place_of_frame
from ..reading import SegmentFiles
from ..wire.columns import Columns

BATCH_BYTES = 1024 * 1024
"""About as much is read at once."""


def read_frame(files: SegmentFiles, ledger_id: int, place: Place) -> Columns | str:
    """The frame at this place, or why nothing there is what the index says."""
    segment, offset = place_of(place.position)
    found = _record_at(files, place)
    match found:
        case Found(record=Record(kind=Kind.ENTRIES, ledger_id=owner, columns=Columns() as columns)):
            stands = place_of_frame(columns, place.position, found.header.record_bytes)
            if owner == ledger_id and stands == place:
                return columns
            why: object = "the index points at another record"
        case Found():
            why = "the record holds no entries"
        case _:
            why = found
    return f"{segments.name_of(segment)} at offset {offset}: {why}"


def _record_at(files: SegmentFiles, place: Place) -> Found | BadRecordBytes | OSError:
    try:
        file = files.get(place_of(place.position)[0])
        return read_record(file, place.position, place.size)
    except OSError as error:
        return error


def batches(places: Iterable[Place]) -> Iterator[list[Place]]:
    """The places, about BATCH_BYTES of records at a time."""
    batch: list[Place] = []
    size = 0
    for place in places:
        batch.append(place)
        size += place.size
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
