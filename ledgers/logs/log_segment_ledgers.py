"""The ledgers of a log's segments: creates and opens them, with the log metadata that each ledger carries."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from metadata.audit import Act, record_audit
from metadata.records.ledger_record import OWNER, SEGMENT, DigestType
from metadata.records.logs import log_codec
from metadata.records.logs.log_ledgers import LOG, SegmentOf
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.segment import Segment

from ..cluster import Cluster
from ..errors import LedgerError, NoSuchLedger
from ..reading.read_handle import ReadHandle
from ..record_change import metadata_errors
from ..writing.write_handle import WriteHandle
from .record_batch import decode
from .segment_holder import is_in_log

log = logging.getLogger(__name__)


class SegmentLedgerClient(Protocol):
    """The part of `ledgers.aio.LedgerClient` that logs need."""

    async def create_ledger(
        self,
        *,
        ensemble_size: int,
        write_quorum: int | None,
        ack_quorum: int | None,
        digest: DigestType,
        password: bytes,
        custom_metadata: Mapping[str, bytes] | None,
    ) -> WriteHandle: ...

    async def open_ledger(
        self, ledger_id: int, *, recovery: bool = True, password: bytes = b""
    ) -> ReadHandle: ...


@dataclass(frozen=True, slots=True)
class LogSegmentLedgers:
    """Creates and opens the ledgers of one log, all with the same password."""

    cluster: Cluster
    calls: SegmentLedgerClient
    password: bytes

    async def create(self, log: LogRecord, first_position: int) -> WriteHandle:
        """Creates the ledger of a segment. Raises the errors of `create_ledger`."""
        shape = log.settings.shape
        said = {
            SEGMENT: SegmentOf(log.identity, first_position, log.epoch).encoded(),
            LOG: log_codec.encode(log.without_segments()),
        }
        if log.owner:  # the log's owner, regardless of which client writes
            said[OWNER] = log.owner.encode()
        return await self.calls.create_ledger(
            ensemble_size=shape.ensemble_size,
            write_quorum=shape.write_quorum,
            ack_quorum=shape.ack_quorum,
            digest=log.settings.digest_type,
            password=self.password,
            custom_metadata=said,
        )

    async def open(self, segment: Segment, *, recovery: bool = False) -> ReadHandle:
        """Opens a segment's ledger. With `recovery`, fences the ledger's writer and closes the ledger."""
        return await self.calls.open_ledger(segment.ledger_id, recovery=recovery, password=self.password)

    async def discard(self, handle: WriteHandle) -> None:
        """Deletes a ledger that the writer did not add to the log, and in which nothing was confirmed. If the ledger
        cannot be deleted, leaves it for an audit to delete.

        If older metadata was accepted in the meantime, the log refers to the ledger nevertheless (rule W8); in that
        case, the ledger is kept. While a hold is in place, nothing is deleted, because the log may still get it.
        """
        await handle.abandon()
        ledgers = self.cluster.ledgers
        try:
            with metadata_errors():
                found = await ledgers.read(handle.ledger_id)
                if found is not None and not await is_in_log(LogStore(self.cluster.store), found.record):
                    await ledgers.delete(found, unless_held=True)
                    record_audit(Act.DELETE, who=self.cluster.who, ledger_id=handle.ledger_id)
        except LedgerError as error:
            line = "ledger %d, which no log needs, could not be deleted: %s"
            log.info(line, handle.ledger_id, error, extra={"ledger": handle.ledger_id})

    async def recover(self, segment: Segment) -> Segment:
        """Recovers a segment's ledger; returns the ended segment."""
        reader = await self.open(segment, recovery=True)
        end = segment.first_position + reader.last_add_confirmed + 1
        ended_us = await time_of(reader, segment, end - 1) if end > segment.first_position else 0
        return segment.ended(end, ended_us, reader.record.length_bytes or 0)


def missing_ledger_error(log: LogRecord, segment: Segment) -> NoSuchLedger:
    """Returns the error for a log whose segment has lost its ledger. The error states the lost positions and how to
    continue."""
    first, end = segment.first_position, segment.end_position
    lost = f"it held log {log.name!r} from position {first} {'on' if end is None else f'to {end - 1}'}"
    how = "was deleted by hand, or the metadata was restored from a copy (`bookledger metadata check`)"
    if end is not None:
        return NoSuchLedger(segment.ledger_id, f"{lost}, and {how}; read the log from position {end} on")
    before = (
        f"`bookledger log read {log.name} --last {first - 1}` prints the records before that"
        if first
        else "There are no earlier records"
    )
    return NoSuchLedger(
        segment.ledger_id,
        f"{lost}, and {how}. The end of the log is unknown, so it accepts no more records. {before}; rename or "
        "delete the log, and start a new one",
    )


async def time_of(reader: ReadHandle, segment: Segment, position: int) -> int:
    """Returns the time at which a record of the segment was appended."""
    entry_id = position - segment.first_position
    async for columns in reader.pages(entry_id, entry_id):
        return decode(columns, segment_start=segment.first_position).times[0]
    raise AssertionError("a page is never empty")
