"""Notes of fragments, and frames that bring them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bookie.wire.messages import Frame
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote
from tests.bookie.entries import frame_of

BK1, BK2, BK3 = (BookieRef(f"b{n}", f"i{n}") for n in (1, 2, 3))


def record_of(
    ledger_id: int, *, identity: bytes = b"", custom: Mapping[str, bytes] | None = None
) -> LedgerRecord:
    return LedgerRecord(
        ledger_id,
        Shape(2, 2, 1),
        (Fragment(0, (BK1, BK2), number=1),),
        identity=identity or ledger_id.to_bytes(16),
        custom_metadata=custom or {},
    )


def note_of(record: LedgerRecord) -> bytes:
    """Of its last fragment."""
    return fragment_note.encode(FragmentNote.of(record, record.fragments[-1]))


def noted(record: LedgerRecord, entry_ids: Iterable[int], *, recovery: bool = False) -> Frame:
    """A frame of the ledger with a note of its last fragment."""
    frame = frame_of(record.ledger_id, entry_ids, recovery=recovery)
    return frame._replace(identity=record.identity, note=note_of(record))
