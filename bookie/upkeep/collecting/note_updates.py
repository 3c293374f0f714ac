"""Keeps a bookie's notes of its ledgers in line with the metadata, for ledgers whose writers did not send the notes
(`FragmentNote`)."""

from __future__ import annotations

from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote

from ...storage.bookie import Bookie
from ...storage.core import state_record


def missing_notes(bookie: Bookie, record: LedgerRecord, me: BookieRef) -> list[bytes]:
    """Returns the notes that are missing or outdated here, for fragments that are placed on this bookie or of which it
    already has a note.

    Returns an empty list if the ledger is not stored here, or if a different ledger is stored here under the same id.
    """
    is_here = bookie.states.peek(record.ledger_id).known or bookie.index.ledger(record.ledger_id) is not None
    if not is_here or bookie.holds_another(record):
        return []
    held = bookie.index.notes.of(record.ledger_id)
    kept = (one for one in record.fragments if me in one.ensemble or one.first_entry in held)
    notes = {one.first_entry: fragment_note.encode(FragmentNote.of(record, one)) for one in kept}
    return [note for first_entry, note in notes.items() if _is_news(held.get(first_entry), note)]


async def keep_notes(bookie: Bookie, record: LedgerRecord, me: BookieRef) -> None:
    """Durably writes missing notes. Callers must hold the upkeep lock, and must have checked that the record exists and
    that the metadata is not on hold. Raises LogFailed and DiskIsFull."""
    if new := missing_notes(bookie, record, me):
        bookie.learn(record)
        state = state_record(bookie.states.peek(record.ledger_id))
        await bookie.store([state._replace(note=note) for note in new])


def _is_news(held: bytes | None, note: bytes) -> bool:
    if held is None:
        return True
    return held != note and fragment_note.headline(held).is_older_than(fragment_note.headline(note))
