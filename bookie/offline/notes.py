"""Reads a stopped bookie's notes of its ledgers from its directory; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from metadata.errors import BadRecord
from metadata.records.notes import fragment_note

from ..disk.disk import Disk, OsDisk
from ..index.index import Index
from ..log import segment_files
from ..log.format import NO_LEDGER, place_of
from ..log.record_reader import Found
from ..log.segment_walk import walk
from ..serving import directory
from ..wire.messages import NO_IDENTITY, NO_NOTE, HeldNote


def notes_in(path: Path) -> Iterator[HeldNote]:
    """Yields the notes that a running bookie would send over the network (`NotesReply`), ordered by ledger and first
    entry.

    Locks the directory while it runs. Raises DataDirectoryError if the path is not a bookie's directory or is in use,
    and IndexUnusable if the index must be rebuilt first. Omits notes that are hidden by damage in the log after the
    index's checkpoint; `bookie check` reports such damage.
    """
    with closing(directory.lock(path)) as locked:
        directory.check_parts(path)
        with closing(Index(locked.index)) as index:
            yield from _all(index, _read_tail(OsDisk(locked.log), index))


def _all(index: Index, tail: dict[int, bytes]) -> Iterator[HeldNote]:
    for ledger_id in sorted({*index.ledger_ids(), *tail}):
        identity = tail.get(ledger_id) or _identity(index, ledger_id)
        notes = sorted(index.notes.of(ledger_id).items())
        ours = [(first, note) for first, note in notes if _is_of(note, identity)]
        for first_entry, note in ours or [(0, NO_NOTE)]:
            yield HeldNote(ledger_id, first_entry, identity, note)


def _is_of(note: bytes, identity: bytes) -> bool:
    try:
        return fragment_note.decode(note).identity == identity
    except BadRecord:  # the note is invalid, but the ledger's entries are still here
        return False


def _identity(index: Index, ledger_id: int) -> bytes:
    state = index.ledger(ledger_id)
    return NO_IDENTITY if state is None or state.identity is None else state.identity


def _read_tail(disk: Disk, index: Index) -> dict[int, bytes]:
    """Adds the notes that the log contains after the checkpoint to those in the index; returns the ledgers that have
    records after the checkpoint, with their identities."""
    found: dict[int, bytes] = {}
    checkpoint = index.checkpoint_position
    for segment in (number for number in segment_files.numbers(disk) if number >= place_of(checkpoint)[0]):
        for one in walk(disk, segment):
            if not isinstance(one, Found) or one.position < checkpoint or one.record.ledger_id == NO_LEDGER:
                continue
            record = one.record
            found[record.ledger_id] = record.identity or found.get(record.ledger_id, NO_IDENTITY)
            if record.note:
                index.notes.add(record.ledger_id, record.note)
    return found
