"""Finds the log that needs a ledger, so that no client deletes a segment of a log."""

from __future__ import annotations

from metadata.records.ledger_record import SEGMENT, LedgerRecord
from metadata.records.logs.log_ledgers import is_needed, segment_of, segments_at
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore

from ..cluster import Cluster
from ..errors import LedgerError, LedgerInLog


async def check_is_in_no_log(cluster: Cluster, record: LedgerRecord) -> None:
    """Raises LedgerInLog for a ledger that a log needs, LedgerError if only a newer version of the program can tell
    whether a log needs the ledger, and MetadataError."""
    holder = await holder_of(LogStore(cluster.store), record)
    if holder is not None:
        raise LedgerInLog(record.ledger_id, holder.name)


async def is_in_log(logs: LogStore, record: LedgerRecord) -> bool:
    """Returns whether the log for which this ledger was created has it as a segment. Raises MetadataError."""
    said = segment_of(record.custom_metadata)
    found = None if said is None else await logs.read(said.identity)
    if said is None or found is None:
        return False
    segments = await segments_at(logs, found.record, said.first_position)
    return any(one.ledger_id == record.ledger_id for one in segments)


async def holder_of(logs: LogStore, record: LedgerRecord) -> LogRecord | None:
    """Returns the log that has this ledger as a segment or may still add it as one; None for any other ledger."""
    if SEGMENT not in record.custom_metadata:
        return None
    said = segment_of(record.custom_metadata)
    if said is None:
        raise LedgerError(
            f"ledger {record.ledger_id} belongs to a log that a newer version of this program wrote: use that version"
        )
    found = await logs.read(said.identity)
    if found is None:
        return None
    segments = await segments_at(logs, found.record, said.first_position)
    return found.record if is_needed(found.record, record, said, segments) else None
