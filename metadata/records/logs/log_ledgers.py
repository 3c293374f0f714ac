"""Determines from the metadata of a segment's ledger to which log it belongs, and whether that log needs the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

from ...errors import BadRecord
from ..ledger_record import IDENTITY_BYTES, SEGMENT, LedgerRecord
from . import log_codec
from .log_record import LogRecord
from .log_store import LogStore
from .segment import Segment

LOG = "bookledger.log.record"
"""Key in the custom metadata of a segment's ledger; its value is the log's record, without its segments, from the time
when the ledger was created."""

_SEGMENT = Struct(f"<B{IDENTITY_BYTES}sqq")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class SegmentOf:
    """A segment according to its ledger's metadata: the identity of its log, its first position, its writer's epoch."""

    identity: bytes
    first_position: int
    epoch: int

    def encoded(self) -> bytes:
        return _SEGMENT.pack(_VERSION, self.identity, self.first_position, self.epoch)


def segment_of(custom_metadata: Mapping[str, bytes]) -> SegmentOf | None:
    """Determines from a ledger's metadata which segment of which log the ledger is; returns None if it is not a
    segment, or if a newer program wrote the metadata."""
    said = custom_metadata.get(SEGMENT, b"")
    if len(said) != _SEGMENT.size:
        return None
    version, *fields = _SEGMENT.unpack(said)
    return SegmentOf(*fields) if version == _VERSION else None


def log_of(custom_metadata: Mapping[str, bytes]) -> LogRecord | None:
    """Returns the log's record from the metadata of a segment's ledger; None if it was written by another program."""
    said = custom_metadata.get(LOG)
    try:
        return None if said is None else log_codec.decode(LOG, said)
    except BadRecord:
        return None


def is_needed(log: LogRecord, ledger: LedgerRecord, said: SegmentOf, segments: Sequence[Segment]) -> bool:
    """Returns whether a segment's ledger is needed (rule L13): the ledger is a segment of the log that created it, or
    may still be added to that log, or is a segment of a fork of that log. `segments` are those returned by
    `segments_at`.

    Unless the log is under legal hold, it does not need a segment that has left the chain, or a segment in a page if no
    records of the segment remain. A deleted log needs no ledger. A ledger that a writer created but never added is no
    longer needed once a later writer has taken over or the chain begins after it. Once this has returned False for a
    ledger, it keeps returning False until a hold begins.
    """
    end = None if ledger.last_entry is None else said.first_position + ledger.last_entry + 1
    mine = next((one for one in segments if one.ledger_id == ledger.ledger_id), None)
    is_anothers = mine is None and any(one.holds(said.first_position) for one in segments if one.is_ended)
    if log.is_forked(said.first_position, end) and not is_anothers:
        return True
    if log.deleted:
        return False
    if log.legal_hold:
        return True
    if mine is None:
        may_be_added = said.first_position >= log.paged_through and said.epoch >= log.epoch
        return may_be_added and ledger.ledger_id not in log.obsolete
    return mine in log.segments or not log.gave_up(mine)


async def segments_at(logs: LogStore, log: LogRecord, position: int) -> Sequence[Segment]:
    """Returns the part of the chain that contains the segment beginning at this position, if there is one."""
    if position >= log.paged_through:
        return log.segments
    page = await logs.page_of(log.identity, position)
    return () if page is None else page.segments
