"""Finds logs whose segments and ledgers do not match, which happens after metadata was restored from a copy or a ledger
was deleted manually."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metadata.records.ledger_record import SEGMENT, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_ledgers import SegmentOf, segment_of
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment
from metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class BrokenSegment:
    """A segment that does not match its log, and the reason."""

    log: str
    segment: Segment
    why: str


async def broken_segments(store: MetadataStore) -> list[BrokenSegment]:
    """Returns all broken segments of all logs. Reads every log and every ledger's record. Raises MetadataError."""
    logs = LogStore(store)
    # The logs are read before the ledgers, so that segments added in the meantime are not examined.
    left = [
        (log.record, segment)
        async for log in logs.records()
        if not log.record.deleted
        async for segment in logs.segments(log.record)
    ]
    found = {
        ledger.record.ledger_id: ledger.record
        async for ledger in LedgerStore(store).list()
        if SEGMENT in ledger.record.custom_metadata
    }
    broken = []
    for log, segment in left:
        if why := _why_broken(log, segment, found):
            now = await logs.read(log.identity)
            if now is not None and not now.record.deleted and not now.record.gave_up(segment):
                broken.append(BrokenSegment(log.name, segment, why))
    return broken


def _why_broken(log: LogRecord, segment: Segment, found: Mapping[int, LedgerRecord]) -> str:
    """Returns the reason why the segment does not match its log; empty if it does."""
    ledger = found.get(segment.ledger_id)
    if ledger is None:
        return "the ledger does not exist, or belongs to another log"
    maker = log.maker_of(segment.first_position)
    if segment_of(ledger.custom_metadata) != SegmentOf(maker, segment.first_position, segment.epoch):
        return "the ledger describes itself as another segment"
    if segment.end_position is None:
        return ""
    if maker != log.identity and (
        ledger.last_entry is None or _end(segment, ledger.last_entry) > segment.end_position
    ):
        return ""  # the log is a fork that shares only a part of the ledger
    if not ledger.is_closed or ledger.last_entry is None:
        return f"the ledger is {ledger.state.value}, but the log records its end"
    end = _end(segment, ledger.last_entry)
    return "" if end == segment.end_position else f"the ledger ends before position {end}"


def _end(segment: Segment, last_entry: int) -> int:
    return segment.first_position + last_entry + 1
