"""A bookie's files as lines for a human. Changes nothing; what cannot be read is a line of its own.

cookie.json      who the bookie is
0000001f.log     every record of a segment, and every stretch between them that holds none
index            (the directory) every frame and every ledger the last checkpoint knew
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from . import directory
from .disk import OsDisk
from .errors import DataDirectoryError
from .index import Index
from .ledger_state import Fence
from .log import segments
from .log.format import Kind, Record, place_of
from .log.replay import Found
from .log.walk import Unreadable, walk

Line = Mapping[str, object]


def dump(path: Path) -> Iterator[Line]:
    """The lines of one file, or of an index directory. Raises DataDirectoryError for anything else."""
    if path.name == directory.COOKIE:
        yield {"kind": "cookie", **asdict(directory.read_cookie(path.parent))}
    elif path.name == directory.INDEX and path.is_dir():
        yield from _index(path)
    elif path.is_file() and (number := segments.number_of(path.name)) is not None:
        yield from map(_segment_line, walk(OsDisk(path.parent), number))
    else:
        raise DataDirectoryError(
            f"{path} is none of a bookie's files: give its {directory.COOKIE}, a segment of its log, or its "
            "index directory"
        )


def _segment_line(found: Found | Unreadable) -> Line:
    if isinstance(found, Unreadable):
        return {
            "kind": "gap",
            "offset": found.offset,
            "end": found.end,
            "what": found.what.value,
            "why": found.why,
        }
    header, record = found.header, found.record
    line: dict[str, object] = {
        "kind": "fence" if record.kind is Kind.FENCE else "entries",
        "offset": place_of(found.position)[1],
        "bytes": header.record_bytes,
        "ledger": record.ledger_id,
    }
    return {**line, **_entries(record), "synced_before": header.synced}


def _entries(record: Record) -> Line:
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
    return line


def _index(path: Path) -> Iterator[Line]:
    index = Index(path)
    try:
        segment, offset = place_of(index.checkpoint_position)
        yield {"kind": "checkpoint", "segment": segments.name_of(segment), "offset": offset}
        for ledger_id, place in index.places():
            segment, offset = place_of(place.position)
            at = {"segment": segments.name_of(segment), "offset": offset, "bytes": place.size}
            span = {
                "first_entry": place.first_entry,
                "last_entry": place.last_entry,
                "entries": place.entries,
            }
            yield {"kind": "frame", "ledger": ledger_id, **span, **at}
        for ledger_id in index.ledger_ids():
            yield _ledger(index, ledger_id)
    finally:
        index.close()


def _ledger(index: Index, ledger_id: int) -> Line:
    state = index.ledger(ledger_id)
    assert state is not None
    lac = state.last_add_confirmed
    return {
        "kind": "ledger",
        "ledger": ledger_id,
        "fenced": state.fence is Fence.DURABLE,
        "has_entries": state.known,
        "last_add_confirmed": -1 if lac is None else lac.last_entry,
        "verifier": (state.verifier or b"").hex(),
    }
