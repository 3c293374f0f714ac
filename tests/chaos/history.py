"""What clients were promised, and whether it was kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ledgers import ClientConfig
from ledgers.aio import LedgerClient
from metadata.records.ledger_record import LedgerRecord
from tests.support.writing import copies_of_every_entry, payload_of

IMPATIENT = ClientConfig(
    append_seconds_max=2,
    append_quorum_seconds_max=30,
    failed_bookie_seconds=2,
    retry_replacement_seconds=0.2,
    quarantine_seconds=5,
)

ENTRIES_PER_LEDGER_MAX = 1_000_000


class Broken(AssertionError):
    """A promise was."""


def payload(ledger_id: int, entry_id: int) -> bytes:
    """What this entry says, whoever asks."""
    number = ledger_id * ENTRIES_PER_LEDGER_MAX + entry_id
    return payload_of(number, 50 + number % 1500)


@dataclass
class History:
    """Of each ledger, the last entry that its writer was told is confirmed, and the end that somebody saw."""

    confirmed: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    entries_read: int = 0
    deleted: set[int] = field(default_factory=set)
    entries_deleted: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def entries_confirmed(self) -> int:
        return self.entries_deleted + sum(last + 1 for last in self.confirmed.values())

    def is_deleted(self, ledger_id: int) -> None:
        """All of it was read, and nobody is to read it any more."""
        self.entries_deleted += self.confirmed.pop(ledger_id) + 1
        self.deleted.add(ledger_id)

    def is_kept(self, ledger_id: int, confirmed: int) -> None:
        """It could not be deleted after all."""
        self.deleted.discard(ledger_id)
        self.entries_deleted -= confirmed + 1
        self.confirmed[ledger_id] = confirmed

    def is_confirmed(self, ledger_id: int, entry_id: int) -> None:
        if ledger_id not in self.deleted:
            self.confirmed[ledger_id] = max(entry_id, self.confirmed.get(ledger_id, -1))
        if entry_id > self.ends.get(ledger_id, entry_id):
            self.broken.append(f"entry {entry_id} of ledger {ledger_id} was confirmed behind its end")

    def has_ended(self, record: LedgerRecord) -> None:
        """Everybody sees the same end, and it is behind all that was confirmed."""
        ledger_id, last = record.ledger_id, record.last_entry
        assert last is not None
        if self.ends.setdefault(ledger_id, last) != last:
            raise Broken(f"ledger {ledger_id} ends at {last} and at {self.ends[ledger_id]}")
        if last < self.confirmed.get(ledger_id, -1):
            raise Broken(f"ledger {ledger_id} ends at {last}, and {self.confirmed[ledger_id]} was confirmed")

    async def read_all(self, client: LedgerClient, ledger_id: int) -> LedgerRecord:
        """Recovers the ledger and reads all of it. Raises Broken, or what keeps it from being read."""
        reader = await client.open_ledger(ledger_id)
        self.has_ended(reader.record)
        expected = 0
        async for entry in reader.read():
            if entry.entry_id != expected or entry.payload != payload(ledger_id, expected):
                raise Broken(f"entry {expected} of ledger {ledger_id} is {entry!r:.100}")
            expected += 1
        if expected != self.ends[ledger_id] + 1:
            raise Broken(f"ledger {ledger_id} gave {expected} of {self.ends[ledger_id] + 1} entries")
        self.entries_read += expected
        return reader.record

    async def copies_missing(self, client: LedgerClient, record: LedgerRecord) -> int:
        """How many copies of the ledger's entries are not on the bookies that the metadata names for them."""
        last = self.ends[record.ledger_id]
        copies = await copies_of_every_entry(client, record, last, lambda n: payload(record.ledger_id, n))
        return sum(record.shape.write_quorum - copies[entry_id] for entry_id in range(last + 1))
