"""The note about a ledger that is sent to bookies on the ledger's lanes. It describes the last fragment, and is encoded
only once for all of these bookies."""

from __future__ import annotations

from typing import Protocol

from bookie.wire import NO_NOTE
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes import fragment_note


class KnowsRecord(Protocol):
    """A state machine that knows its ledger's record, in the latest version that is certain to be stored."""

    @property
    def record(self) -> LedgerRecord: ...


class LaneNotes:
    """The current note, made from a writer's record. Its bytes stay the same until the fragment changes or the ledger
    ends.

    A recovery sends no notes, because its changes take effect only once the ledger is closed.
    """

    def __init__(self, machine: KnowsRecord) -> None:
        self._machine = machine
        self._seen: LedgerRecord | None = None
        self._of: object = None
        self._note = NO_NOTE

    def now(self) -> bytes:
        record = self._machine.record
        if record is self._seen:
            return self._note
        self._seen = record
        last = record.fragments[-1]
        of = record.state, last
        if of != self._of:
            self._of, self._note = of, fragment_note.encode_of(record, last)
        return self._note
