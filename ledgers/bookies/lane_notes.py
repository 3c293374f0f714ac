"""What the bookies of a lane should know of its ledger: the note of its last fragment, encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable

from bookie.wire import NO_NOTE
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes import fragment_note


class LaneNotes:
    """The current note by the record, as this client knows that it stands. The same bytes until the fragment changes
    or the ledger ends. A recovery has none: its changes stand only once the ledger is closed.
    """

    def __init__(self, record: Callable[[], LedgerRecord]) -> None:
        self._record = record
        self._seen: LedgerRecord | None = None
        self._note = NO_NOTE

    def now(self) -> bytes:
        record = self._record()
        before, self._seen = self._seen, record
        if record is before:
            return self._note
        is_same = before is not None and before.fragments[-1] == record.fragments[-1]
        if before is None or not is_same:
            self._note = fragment_note.encode_of(record, record.fragments[-1])
        elif before.state is not record.state:
            self._note = fragment_note.of_later_state(self._note, before, record)
        return self._note
