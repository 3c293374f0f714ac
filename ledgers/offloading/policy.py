"""Decides which ledgers are copied to the object store, and when bookies drop them. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.logs.log_ledgers import segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.registration import Registration

DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadPolicy:
    """When ledgers are copied to the object store, and when bookies drop them.

    `after_seconds`: copy a ledger this long after it was closed. `logs`: the same for ledgers of these logs; infinity
    excludes a log. If several of these logs share a ledger, the longest time applies. `used_percent_max`: if more than
    this percentage of a bookie's disk is used, copy its oldest ledgers at once, as many as needed to get below it.
    `keep_seconds`: bookies drop a ledger this long after it was copied.
    """

    after_seconds: float = 7 * DAY
    used_percent_max: float = 100.0
    keep_seconds: float = 3600.0
    logs: Mapping[str, float] = field(default_factory=dict)

    def may_copy(self, record: LedgerRecord, logs: Collection[str]) -> bool:
        """Returns whether this policy ever copies the ledger in its present state. `logs`: the logs that use it."""
        is_complete = record.last_entry is not None and record.last_entry >= 0
        return is_complete and not record.is_in_object_store and not math.isinf(self._after(logs))

    def is_old(self, record: LedgerRecord, logs: Collection[str], now_ms: int) -> bool:
        return record.closed_ms + self._after(logs) * 1000 <= now_ms

    def _after(self, logs: Collection[str]) -> float:
        return max((self.logs[one] for one in logs if one in self.logs), default=self.after_seconds)

    def is_to_be_dropped(self, record: LedgerRecord, now_ms: int) -> bool:
        """Returns whether bookies have kept a copied ledger for `keep_seconds`."""
        copy, is_on_bookies = record.cold, not record.has_no_ensembles
        if copy is None or not copy.is_stored or not is_on_bookies:
            return False
        if record.may_lack_entries:  # perhaps the ledger is being recalled
            return False
        return copy.at_ms + self.keep_seconds * 1000 <= now_ms

    def bytes_over(self, bookies: Iterable[Registration]) -> Counter[BookieRef]:
        """Returns, for each bookie whose disk usage is above the limit, the number of bytes above it."""
        found = Counter[BookieRef]()
        for one in bookies:
            used = one.disk_bytes_total - one.disk_bytes_free
            found[one.bookie] = math.ceil(used - one.disk_bytes_total * self.used_percent_max / 100)
        return +found


def relieving(
    over: Counter[BookieRef], leaving: Iterable[LedgerRecord], others: Iterable[LedgerRecord]
) -> list[LedgerRecord]:
    """Chooses which of the ledgers `others` to drop, oldest first, until enough space is freed on these bookies, given
    that the ledgers `leaving` are dropped anyway."""
    left, chosen = +over, list[LedgerRecord]()
    for record in leaving:
        left -= _bytes_by_bookie(record)
    for record in sorted(others, key=lambda one: one.closed_ms):
        if not left:
            break
        held = _bytes_by_bookie(record)
        if left.keys() & held.keys():
            chosen.append(record)
            left -= held
    return chosen


def _bytes_by_bookie(record: LedgerRecord) -> Counter[BookieRef]:
    found = Counter[BookieRef]()
    for fragment, size in record.copy_bytes():
        found.update(dict.fromkeys(fragment.ensemble, size))
    return found


def logs_by_maker(logs: Iterable[LogRecord]) -> dict[bytes, list[LogRecord]]:
    """Groups logs by the identities under which their ledgers were created: a log's own identity, and those of the logs
    it was forked from."""
    found = defaultdict[bytes, list[LogRecord]](list)
    for log in logs:
        for identity in {log.identity, *(one.identity for one in log.makers)}:
            found[identity].append(log)
    return found


def logs_of(record: LedgerRecord, by_maker: Mapping[bytes, Sequence[LogRecord]]) -> list[str]:
    """Returns the names of the logs that the ledger is a segment of; a fork shares segments with other logs."""
    said = segment_of(record.custom_metadata)
    if said is None:
        return []
    logs = by_maker.get(said.identity, ())
    return [log.name for log in logs if log.maker_of(said.first_position) == said.identity]
