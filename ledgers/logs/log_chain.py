"""One log's record, changed by compare-and-swap: a transition is applied to the current record, and applied again after
a conflict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from metadata.records.ledger_store import LedgerStore
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.segment import Segment
from metadata.version import Version

from ..errors import LogFenced, MetadataWentBack, NoSuchLedger
from ..record_change import (
    ClientRecord,
    lost_record_error,
    metadata_errors,
    missing_log_error,
)
from .errors import LogRestored

Transition = Callable[[LogRecord], LogRecord]


class LogChain(ClientRecord[LogRecord]):
    """The record of a log, as last read or changed. Raises NoSuchLog once the log is deleted; also raises
    MetadataUnavailable."""

    def __init__(self, logs: LogStore, found: VersionedLog) -> None:
        super().__init__(found)
        self.logs = logs

    @property
    def what(self) -> str:
        return f"log {self.record.name!r}"

    async def _read(self) -> VersionedLog:
        name = self.record.name
        with metadata_errors():
            found = await self.logs.read(self.record.identity)
            if found is None or found.record.deleted:
                await self._check_was_deleted(found)
                raise await missing_log_error(self.logs.store, name)
        return found

    async def _check_was_deleted(self, found: VersionedLog | None) -> None:
        """Raises MetadataWentBack if the record and the chain's last ledger are both missing but were not deleted."""
        last, ledgers = self.record.last, LedgerStore(self.logs.store)
        if found is None and last is not None and await ledgers.read(last.ledger_id) is None:
            error = await lost_record_error(ledgers, last.ledger_id)
            if isinstance(error, MetadataWentBack):
                raise error

    async def _replaced(self, wanted: LogRecord, version: Version) -> VersionedLog:
        return await self.logs.change(wanted, version)


def under(epoch: int, transition: Transition) -> Transition:
    """Guards a writer's transition: raises LogFenced unless the writer has the latest epoch."""

    def guarded(record: LogRecord) -> LogRecord:
        if record.epoch != epoch:
            raise LogFenced(record.name, record.writer, record.epoch)
        return transition(record)

    return guarded


def check_not_restored(record: LogRecord) -> LogRecord:
    """Raises LogRestored for a log that has a successor."""
    if record.successor is not None:
        raise LogRestored(record.name, record.successor.name)
    return record


@asynccontextmanager
async def dropped_by_rivals_only(chain: LogChain, epoch: int) -> AsyncIterator[None]:
    """Raises LogFenced instead of NoSuchLedger if a later writer has taken the log over and dropped an empty
    segment."""
    try:
        yield
    except NoSuchLedger:
        under(epoch, lambda record: record)(await chain.refresh())
        raise


def last_ended(segment: Segment) -> Transition:
    """Returns a transition that ends the writer's last segment. If the segment is no longer in the chain, an earlier
    change, whose answer was lost, ended the segment, and the segment has since been truncated."""

    def ended(record: LogRecord) -> LogRecord:
        is_there = record.last is not None and record.last.ledger_id == segment.ledger_id
        return record.ended(segment) if is_there else record

    return ended


class Ended(NamedTuple):
    """How a segment ended, according to its ledger. `next_us`: the time at which the next segment begins."""

    ledger_id: int
    end_position: int
    ended_us: int
    length_bytes: int
    next_us: int


def joined(tail: Ended, begun: int | None, epoch: int) -> Transition:
    """Returns a transition that ends the last segment and, if `begun` is given, begins the next segment in the ledger
    with that id."""

    def join(record: LogRecord) -> LogRecord:
        last = record.last
        if begun is not None and last is not None and last.ledger_id == begun:
            return record  # an earlier attempt succeeded, but its answer was lost
        # replaced below, unless the tail was recovered or is no longer in the record
        next_us = record.time_us
        if last is not None and last.ledger_id == tail.ledger_id and not last.is_ended:
            record = record.ended(last.ended(tail.end_position, tail.ended_us, tail.length_bytes))
            next_us = tail.next_us
        if begun is None:
            return record
        return record.begun(Segment(begun, tail.end_position, epoch, next_us))

    return join
