"""Which log needs a ledger: nobody deletes a segment behind its log's back."""

from __future__ import annotations

from collections.abc import Sequence

from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs.log_record import LogRecord, Segment
from metadata.records.logs.log_store import LogStore

from ..cluster import Cluster
from ..errors import LedgerError, LedgerInLog
from .segment_ledgers import SEGMENT, SegmentOf, segment_of


async def check_is_in_no_log(cluster: Cluster, record: LedgerRecord) -> None:
    """Raises LedgerInLog for a ledger that a log needs; LedgerError where only a newer program knows; MetadataError."""
    holder = await holder_of(LogStore(cluster.store), record)
    if holder is not None:
        raise LedgerInLog(record.ledger_id, holder.name)


async def holder_of(logs: LogStore, record: LedgerRecord) -> LogRecord | None:
    """The log that has this ledger as a segment, or may still get it; None for any other ledger.

    A log needs no segment that it has given up whole, unless it is under legal hold; nothing once it is deleted; and no
    ledger that a writer made and that became no segment, once a later writer has taken over.
    """
    if SEGMENT not in record.custom_metadata:
        return None
    said = segment_of(record.custom_metadata)
    if said is None:
        raise LedgerError(
            f"ledger {record.ledger_id} is of a log that only a newer program understands: use that"
        )
    found = await logs.read(said.identity)
    if found is None or found.record.deleted:
        return None
    segments = await _segments_at(logs, found.record, said)
    mine = next((one for one in segments if one.ledger_id == record.ledger_id), None)
    return found.record if _needs(found.record, record.ledger_id, mine, said) else None


def _needs(log: LogRecord, ledger_id: int, segment: Segment | None, said: SegmentOf) -> bool:
    if log.legal_hold:
        return True
    if segment is None:
        return said.epoch >= log.epoch and ledger_id not in log.obsolete
    return segment.end_position is None or segment.end_position > log.first_position


async def _segments_at(logs: LogStore, log: LogRecord, said: SegmentOf) -> Sequence[Segment]:
    """The part of the chain in which the segment stands, if it stands anywhere."""
    if said.first_position >= log.paged_through:
        return log.segments
    page = await logs.page_of(log.identity, said.first_position)
    return () if page is None else page.segments
