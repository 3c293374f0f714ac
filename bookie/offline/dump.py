"""Dumps a bookie's files as human-readable lines. Changes nothing; an unreadable part gets a line, too.

cookie.json      the bookie's name and incarnation
0000001f.log     the header of a segment, every record, and every gap between them
index            (the directory) every frame, every ledger, and the usage of each segment, as of the last checkpoint
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from metadata.errors import BadRecord
from metadata.records.notes import fragment_note

from ..disk.disk import Disk, OsDisk
from ..errors import DataDirectoryError
from ..index.index import Index
from ..index.local_ledger_state import Fence, LocalLedgerState
from ..log import manifest, segment_files
from ..log.format import SEGMENT_HEADER, BookieLogRecord, RecordKind, place_of
from ..log.record_reader import Found
from ..log.segment_walk import UnreadableRecord, walk
from ..serving import directory

Line = Mapping[str, object]


def dump(path: Path) -> Iterator[Line]:
    """Yields the lines for one file, or for an index directory. Raises DataDirectoryError for anything else."""
    if path.name == directory.COOKIE:
        yield {"kind": "cookie", **asdict(directory.read_cookie(path.parent))}
    elif path.name == directory.INDEX and path.is_dir():
        yield from _index(path)
    elif path.is_file() and (number := segment_files.number_of(path.name)) is not None:
        yield from _segment(OsDisk(path.parent), number)
    else:
        raise DataDirectoryError(
            f"{path} does not belong to a bookie: pass a bookie's {directory.COOKIE}, a segment of its log, or its "
            "index directory"
        )


def _segment(disk: Disk, number: int) -> Iterator[Line]:
    header = segment_files.header_of(disk, number)
    if header is not None:
        yield {"kind": "header", "offset": 0, "end": SEGMENT_HEADER.size, **asdict(header)}
    yield from map(_segment_line, walk(disk, number))


def _segment_line(found: Found | UnreadableRecord) -> Line:
    if isinstance(found, UnreadableRecord):
        return {
            "kind": "gap",
            "offset": found.offset,
            "end": found.end,
            "what": found.what.value,
            "why": found.why,
        }
    header, record = found.header, found.record
    line: dict[str, object] = {
        "kind": record.kind.name.lower(),
        "offset": place_of(found.position)[1],
        "bytes": header.record_bytes,
        "ledger": record.ledger_id,
    }
    return {**line, **_entries(record), **_content(found), "synced_before": header.synced}


def _content(found: Found) -> Line:
    record = found.record
    try:
        match record.kind:
            case RecordKind.STATE:
                return _state(LocalLedgerState.decode(record.ledger_id, record.content))
            case RecordKind.SEGMENTS:
                kept = manifest.from_record(record, found.position).kept
                return {"segments": " ".join(segment_files.name_of(number) for number in sorted(kept))}
            case _:
                return {}
    except ValueError as error:
        return {"unreadable": str(error)}


def _entries(record: BookieLogRecord) -> Line:
    line: dict[str, object] = {}
    columns = record.columns
    if columns is not None and len(columns):
        line |= {
            "first_entry": columns.first_entry,
            "last_entry": columns.last_entry,
            "entries": len(columns),
        }
        line["payload_bytes"] = len(columns.payload)
    if record.last_add_confirmed is not None:
        line["last_add_confirmed"] = record.last_add_confirmed.last_entry
    if record.recovery:
        line["recovery"] = True
    if record.verifier:
        line["verifier"] = record.verifier.hex()
    if record.note:
        line["note"] = _note(record.note)
    return line


def _note(note: bytes) -> str:
    try:
        decoded = fragment_note.decode(note)
    except BadRecord as error:
        return str(error)
    ensemble = ", ".join(map(str, decoded.fragment.ensemble))
    end = f", closed at entry {decoded.ledger.last_entry}" if decoded.ledger.is_closed else ""
    return f"fragment {decoded.fragment.number} from entry {decoded.fragment.first_entry} on {ensemble}{end}"


def _index(path: Path) -> Iterator[Line]:
    with closing(Index(path)) as index:
        yield {"kind": "checkpoint", **_at(index.checkpoint_position), "limbo_is_due": index.limbo_is_due}
        for ledger_id, place in index.places():
            span = {
                "first_entry": place.first_entry,
                "last_entry": place.last_entry,
                "entries": place.entries,
            }
            yield {"kind": "frame", "ledger": ledger_id, **span, **_at(place.position), "bytes": place.size}
        for state in index.states():
            yield {"kind": "ledger", "ledger": state.ledger_id, **_state(state)}
            for note in index.notes.of(state.ledger_id).values():
                yield {"kind": "note", "ledger": state.ledger_id, "note": _note(note)}
        for segment in sorted(index.usage.totals()):
            for ledger_id, held in sorted(index.usage.of(segment).items()):
                at = {"segment": segment_files.name_of(segment), "ledger": ledger_id}
                yield {"kind": "usage", **at, **held._asdict()}


def _at(position: int) -> Line:
    segment, offset = place_of(position)
    return {"segment": segment_files.name_of(segment), "offset": offset}


def _state(state: LocalLedgerState) -> Line:
    lac = state.last_add_confirmed
    return {
        "fenced": state.fence is Fence.DURABLE,
        "limbo": state.limbo,
        "has_entries": state.known,
        "last_add_confirmed": -1 if lac is None else lac.last_entry,
        "verifier": "unknown" if state.verifier is None else state.verifier.hex(),
    }
