"""What must hold whatever happens, watched from outside the machines under test."""

from __future__ import annotations

from collections.abc import Mapping

from bookie.wire import Columns, LacStatement
from ledgers.striping import Striping
from metadata.ledger_record import BookieRef, LedgerRecord, LedgerState

Stored = Mapping[int, tuple[bytes, bytes]]


class Violation(AssertionError):
    """A promise was broken."""


class Checker:
    """Sees every confirmation, every entry on a disk and every committed record."""

    def __init__(self, first: LedgerRecord) -> None:
        self.committed = first
        self.confirmed_through = -1
        self.told_through = -1
        self.written: dict[int, bytes] = {}
        self._striping = Striping(first.shape)
        self._disks: dict[BookieRef, Stored] = {}

    def add_disk(self, bookie: BookieRef, entries: Stored) -> None:
        self._disks[bookie] = entries

    def appended(self, entry_id: int, payload: bytes) -> None:
        self.written[entry_id] = payload

    def stored(self, columns: Columns) -> None:
        """One (ledger, entry) never has two bodies."""
        for entry_id, payload, _ in columns.rows():
            if self.written.get(entry_id) != bytes(payload):
                raise Violation(f"entry {entry_id} has a second body")

    def told(self, statement: LacStatement | None) -> None:
        """Readers may act on every last-add-confirmed that a frame carries."""
        if statement is None:
            return
        self.told_through = max(self.told_through, statement.last_entry)
        if statement.last_entry > self.confirmed_through:
            raise Violation(f"entry {statement.last_entry} was told to readers before it was confirmed")

    def confirmed(self, through: int) -> None:
        """At the moment of Confirm each entry is on Qa disks that the committed metadata names."""
        if through <= self.confirmed_through:
            raise Violation(f"the LAC went from {self.confirmed_through} to {through}")
        last = self.committed.last_entry
        if last is not None and through > last:
            raise Violation(f"entry {through} was confirmed after the ledger was closed at {last}")
        for entry_id in range(self.confirmed_through + 1, through + 1):
            self._must_be_durable(entry_id, "confirmed")
        self.confirmed_through = through

    def changed(self, record: LedgerRecord) -> None:
        """A compare-and-swap was applied."""
        before, self.committed = self.committed, record
        allowed = {
            LedgerState.OPEN: tuple(LedgerState),
            LedgerState.IN_RECOVERY: (LedgerState.CLOSED,),
            LedgerState.CLOSED: (),
        }
        if record.state not in allowed[before.state]:
            raise Violation(f"the state went from {before.state} to {record.state}")
        self._check_fragments(before, record)
        if record.is_closed:
            self._closed(record)

    def _check_fragments(self, before: LedgerRecord, record: LedgerRecord) -> None:
        """Only the last fragment of what stood may be replaced, unless a close drops what lies beyond it."""
        for one, other in zip(before.fragments[:-1], record.fragments, strict=False):
            if one != other:
                raise Violation(f"the earlier fragment {one} became {other}")
        if len(record.fragments) < len(before.fragments) and not record.is_closed:
            raise Violation("a fragment vanished")

    def _closed(self, record: LedgerRecord) -> None:
        last = record.last_entry
        assert last is not None
        if last < self.confirmed_through:
            raise Violation(f"closed at {last}, but {self.confirmed_through} was confirmed")
        if last < self.told_through:
            raise Violation(f"closed at {last}, but readers were told of {self.told_through}")
        for entry_id in range(last + 1):
            self._must_be_durable(entry_id, "in the closed ledger")
        length = sum(len(self.written[entry_id]) for entry_id in range(last + 1))
        if record.length_bytes != length:
            raise Violation(f"the length is {record.length_bytes}, not {length}")

    def _must_be_durable(self, entry_id: int, why: str) -> None:
        ensemble = self.committed.fragment_of(entry_id).ensemble
        holders = [
            ensemble[position]
            for position in self._striping.write_set(entry_id)
            if self._disks[ensemble[position]].get(entry_id, (None,))[0] == self.written[entry_id]
        ]
        if len(holders) < self.committed.shape.ack_quorum:
            named = [str(ensemble[p]) for p in self._striping.write_set(entry_id)]
            raise Violation(f"entry {entry_id} is {why}, but of {named} only {holders} have it")

    def ended(self, who: str, record: LedgerRecord) -> None:
        """Somebody was told that the ledger is closed like this: all are told the same."""
        if not self.committed.is_closed or record.last_entry != self.committed.last_entry:
            raise Violation(f"{who} believes in the end {record.last_entry}, not {self.committed.last_entry}")
