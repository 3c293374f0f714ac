"""The ledgers of a log's segments: what makes, opens and deletes them, and what each says of its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Protocol

from metadata.errors import BadRecord
from metadata.records.ledger_record import IDENTITY_BYTES, OWNER, DigestType
from metadata.records.logs import log_codec
from metadata.records.logs.log_record import LogRecord, Segment

from ..cluster import Cluster
from ..reading.read_handle import ReadHandle
from ..record_change import metadata_errors
from ..recovering.delete import delete
from ..writing.write_handle import WriteHandle
from .record_batch import decode

SEGMENT = "bookledger.log"
"""Custom metadata key of a segment's ledger: which log it is of, which position it begins at, whose epoch it is of. So
the chain can be made again from the ledgers."""

LOG = "bookledger.log.record"
"""Custom metadata key of a segment's ledger: the log's record as it stood then, without its segments."""

_SEGMENT = Struct(f"<B{IDENTITY_BYTES}sqq")
_VERSION = 1


class LedgerCalls(Protocol):
    """The calls of a client of ledgers that logs are made of; see `ledgers.aio.LedgerClient`."""

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
class SegmentOf:
    """What the ledger of a segment says: the identity of its log, its first position, its writer's epoch."""

    identity: bytes
    first_position: int
    epoch: int


def segment_of(custom_metadata: Mapping[str, bytes]) -> SegmentOf | None:
    """What a ledger says of the log of which it is a segment; None for any other ledger, or a newer program's."""
    said = custom_metadata.get(SEGMENT, b"")
    if len(said) != _SEGMENT.size:
        return None
    version, *fields = _SEGMENT.unpack(said)
    return SegmentOf(*fields) if version == _VERSION else None


def log_of(custom_metadata: Mapping[str, bytes]) -> LogRecord | None:
    """What a segment's ledger says of its log besides; None for one of another program."""
    said = custom_metadata.get(LOG)
    try:
        return None if said is None else log_codec.decode(LOG, said)
    except BadRecord:
        return None


@dataclass(frozen=True, slots=True)
class SegmentLedgers:
    """Makes and opens the ledgers of one log, under one password."""

    cluster: Cluster
    calls: LedgerCalls
    password: bytes

    async def create(self, log: LogRecord, first_position: int) -> WriteHandle:
        """Creates the ledger of a segment. Raises as `create_ledger`."""
        shape = log.settings.shape
        said = {
            SEGMENT: _SEGMENT.pack(_VERSION, log.identity, first_position, log.epoch),
            LOG: log_codec.encode(log.without_segments()),
        }
        if log.owner:  # whoever writes
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
        """Opens a segment's ledger; with `recovery` its writer is fenced, and it is closed."""
        return await self.calls.open_ledger(segment.ledger_id, recovery=recovery, password=self.password)

    async def delete(self, ledger_id: int) -> None:
        """Deletes a ledger that the log has given up. Raises NoSuchLedger where that was done already."""
        with metadata_errors():
            await delete(self.cluster, ledger_id, self.password, is_given_up=True)

    async def recover(self, segment: Segment) -> Segment:
        """Recovers a segment's ledger; returns the segment as it has ended."""
        reader = await self.open(segment, recovery=True)
        end = segment.first_position + reader.last_add_confirmed + 1
        ended_us = await time_of(reader, segment, end - 1) if end > segment.first_position else 0
        return segment.ended(end, ended_us, reader.record.length_bytes or 0)


async def time_of(reader: ReadHandle, segment: Segment, position: int) -> int:
    """When a record of the segment was appended."""
    entry_id = position - segment.first_position
    async for columns in reader.pages(entry_id, entry_id):
        return decode(columns, segment_start=segment.first_position).times[0]
    raise AssertionError("a page is never empty")
