"""Which ledgers are copied to the object store, and when bookies drop them. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.registration import Registration

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadPolicy:
    """A ledger is due `after_seconds` after it was closed; one of a log in `logs` after that log's number instead. Of
    bookies whose disk is used by more than `used_percent_max`, ledgers are due at once, the oldest first. Bookies keep
    what was copied for `keep_seconds`."""

    after_seconds: float = 7 * DAY
    used_percent_max: float = 100.0
    keep_seconds: float = 3600.0
    logs: Mapping[str, float] = field(default_factory=dict)

    def is_due(self, record: LedgerRecord, log: str | None, now_ms: int, full: Collection[BookieRef]) -> bool:
        """Whether a ledger is to be copied, which is of this log, or of none."""
        if record.last_entry is None or record.last_entry < 0 or record.is_in_object_store:
            return False
        after = self.logs.get(log, self.after_seconds) if log is not None else self.after_seconds
        if math.isinf(after):
            return False
        is_old = record.closed_ms + after * 1000 <= now_ms
        return is_old or any(one in full for f in record.fragments for one in f.ensemble)

    def is_to_be_dropped(self, record: LedgerRecord, now_ms: int) -> bool:
        """Whether bookies have kept a ledger for long enough that was copied."""
        copy, is_on_bookies = record.cold, not record.names_no_bookie
        if copy is None or not copy.is_stored or not is_on_bookies or record.is_on_no_bookie:
            return False
        return copy.at_ms + self.keep_seconds * 1000 <= now_ms

    def full(self, bookies: Iterable[Registration]) -> frozenset[BookieRef]:
        """Those whose disk is used by more than the mark."""
        return frozenset(
            one.bookie
            for one in bookies
            if one.disk_bytes_total
            and 100 * (1 - one.disk_bytes_free / one.disk_bytes_total) > self.used_percent_max
        )


def log_of(record: LedgerRecord, names: Mapping[bytes, str]) -> str | None:
    """The name of the log whose segment it is, of logs by their identities."""
    said = segment_of(record.custom_metadata)
    return None if said is None else names.get(said.identity)
