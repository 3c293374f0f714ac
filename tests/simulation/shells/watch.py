"""Every ledger of a run, watched from outside: a Checker for each, fed by disks, metadata, writers and readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bookie.wire import Columns, LacStatement
from metadata import keys
from metadata.records import ledger_codec
from metadata.records.ledger_record import BookieRef, LedgerRecord, Tombstone
from tests.simulation.cores.checks import Checker
from tests.simulation.engine.world import Violation

Disk = dict[int, tuple[bytes, bytes]]


class WatchedLedger:
    """One ledger: what its checker is told, and what each bookie has of it on disk."""

    def __init__(self, record: LedgerRecord) -> None:
        self.ledger_id = record.ledger_id
        self.checker = Checker(record)
        self.checker.heals = True
        self._disks: dict[BookieRef, Disk] = {}

    @property
    def record(self) -> LedgerRecord:
        """What stands in the metadata; what stood last, for a deleted ledger."""
        return self.checker.committed

    @property
    def last_entry(self) -> int:
        """Where the closed ledger ends; −1 for an empty one, and for one that is not closed."""
        last = self.record.last_entry
        return -1 if last is None else last

    @property
    def is_deleted(self) -> bool:
        return self.checker.is_deleted

    def disk(self, bookie: BookieRef) -> Disk:
        return self._disks.setdefault(bookie, {})

    def stored(self, bookie: BookieRef, columns: Columns, *, recovery: bool) -> None:
        """The first body that reaches a disk is the entry's; `appended_as` compares it with what was appended."""
        disk = self.disk(bookie)
        for entry_id, payload, digest in columns.rows():
            self.checker.written.setdefault(entry_id, bytes(payload))
            disk[entry_id] = (bytes(payload), bytes(digest))
        self.checker.stored(bookie, columns, recovery=recovery)

    def told(self, statement: LacStatement | None) -> None:
        if not self.is_deleted:
            self.checker.told(statement)
        elif statement is not None:
            self.checker.told_through = max(self.checker.told_through, statement.last_entry)

    def confirmed(self, through: int) -> None:
        """The writer says that it is confirmed."""
        if through <= self.checker.confirmed_through:
            return
        nowhere = [n for n in range(through + 1) if n not in self.checker.written]
        if nowhere:
            raise Violation("I3", f"entry {nowhere[0]} is confirmed and on no disk at all")
        if self.is_deleted:  # its writer has not heard of that yet, and nobody can read what it writes
            self.checker.confirmed_through = through
        else:
            self.checker.confirmed(through)

    def appended_as(self, who: str, entry_id: int, payload: bytes) -> None:
        """The future of an append gave this id: the entry is confirmed, and is what was appended."""
        if entry_id > self.checker.confirmed_through:
            raise Violation("I2", f"{who}'s append returned {entry_id}, which is not confirmed")
        if self.checker.written.get(entry_id) != payload:
            raise Violation("I11", f"{who} appended other bytes than those confirmed as entry {entry_id}")

    def ended(self, who: str, record: LedgerRecord) -> None:
        """Somebody was told that the ledger is closed like this."""
        if not self.is_deleted:
            self.checker.ended(who, record)

    @property
    def proven_through(self) -> int:
        """So far the record alone says that all is confirmed: before the last fragment (W4), or to its end."""
        return self.last_entry if self.record.is_closed else self.record.fragments[-1].first_entry - 1

    def opened(self, who: str, last_add_confirmed: int, proven_before: int) -> None:
        """A reader was opened, after the record proved so much."""
        if last_add_confirmed < proven_before:
            raise Violation(
                "I6", f"{who} may read through {last_add_confirmed}, and the record proved {proven_before}"
            )

    def returned(self, who: str, entry_id: int, payload: bytes) -> None:
        """A reader was given an entry."""
        if entry_id > max(self.checker.told_through, self.proven_through):
            raise Violation("I6", f"{who} was given entry {entry_id}, of which nobody could know")
        self.checker.returned(who, entry_id, payload)


class Watch:
    """All ledgers. What the metadata store applies comes here first."""

    def __init__(self, copied: Callable[[LedgerRecord], Mapping[int, bytes]] | None = None) -> None:
        """`copied`: what is in the objects that a record names."""
        self._ledgers: dict[int, WatchedLedger] = {}
        self._copied = copied

    def __getitem__(self, ledger_id: int) -> WatchedLedger:
        return self._ledgers[ledger_id]

    def __iter__(self) -> Iterator[WatchedLedger]:
        return iter(list(self._ledgers.values()))

    def put(self, key: str, value: bytes) -> None:
        """A key was created or replaced."""
        if not key.startswith(keys.LEDGERS):
            return
        record = ledger_codec.decode(key, value)
        known = self._ledgers.get(keys.ledger_id_of(key))
        if isinstance(record, Tombstone):
            self.removed(key)
        elif known is None:
            self._ledgers[record.ledger_id] = WatchedLedger(record)
            self._ledgers[record.ledger_id].checker.copied = self._copied
        elif not known.is_deleted:
            known.checker.changed(record)
        # else: a creation that arrived after its ledger was made by another try, and deleted. The store cannot
        # tell, so such a ledger is back, empty or not; nothing is promised of it, and nothing is checked.

    def removed(self, key: str) -> None:
        if key.startswith(keys.LEDGERS):
            self._ledgers[keys.ledger_id_of(key)].checker.deleted()
