"""Keeps producer state with the log: one snapshot at each position where a segment begins or the log ends.

Snapshots are kept in the metadata store, under the log's identity and a position; each holds the producer state of all
records before its position. A snapshot is written once these records are confirmed for good, but before the log's
record marks the segment before the position as ended. A take-over therefore needs only the last segment's snapshot and
the records of that segment, and it does not matter which writer wrote the snapshot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from metadata.rate_limit import LogRateLimit
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.producer_record import ProducerSnapshot, ProducerStore
from metadata.records.logs.segment import Segment

from ...errors import LedgerError, LogFenced
from ...record_change import metadata_errors
from ..known_end import KnownEnd
from ..log_chain import LogChain, under
from ..log_reader import LogReader
from ..log_segment_ledgers import LogSegmentLedgers
from ..record_batch import decode
from .producer_memory import ProducerMemory
from .waiting_calls import WaitingCalls

if TYPE_CHECKING:
    from ...observing.log_metrics import LogMetrics

log = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS = 60.0
"""Minimum interval at which the number of forgotten producers is logged."""


class ProducerStateManager:
    """The producer state of one writer, and its snapshots."""

    def __init__(
        self, chain: LogChain, epoch: int, memory: ProducerMemory, metrics: LogMetrics | None = None
    ) -> None:
        self._chain = chain
        self._epoch = epoch
        self._memory = memory
        self._store = ProducerStore(chain.logs.store, chain.record.identity)
        self._log_limit = LogRateLimit(LOG_INTERVAL_SECONDS)
        self._metrics = metrics
        self.turn = asyncio.Lock()
        """Keeps waiting calls in order: a call that overtook earlier ones would make their sequences too old."""
        self.waiting = WaitingCalls()
        self._forgotten = self._counted = memory.forgotten_count

    @classmethod
    async def at(
        cls, chain: LogChain, ledgers: LogSegmentLedgers, epoch: int, ended: Segment | None
    ) -> ProducerStateManager:
        """Returns the state at the log's end. `ended`: the last segment in its ended form, which the log's record may
        not show yet; None for a log without segments."""
        memory = await _memory_at(chain, ledgers, epoch, ended)
        made = cls(chain, epoch, memory, ledgers.cluster.log_metrics)
        if ended is not None and ended.end_position is not None:
            await made.write(ended.end_position, ended.ended_us)
        return made

    @property
    def is_begun(self) -> bool:
        """Whether the log's record states that records may have a producer."""
        return self._chain.record.producers_from is not None

    async def begin(self, confirmed_end: int) -> None:
        """Notes in the log's record, before the first record with a producer is appended, that records from this
        position on may have a producer. No earlier record has one."""
        await self._chain.change(under(self._epoch, lambda record: record.with_producers(confirmed_end)))

    def take(self, producer: str, sequence: int, count: int, position: int) -> Sequence[int]:
        """Adds records from a producer, as `ProducerMemory.take` does."""
        earlier = self._memory.take(producer, sequence, count, position)
        if self._metrics is not None:
            self._metrics.stored_records.inc(count - len(earlier))
            self._metrics.repeated_records.inc(len(earlier))
        return earlier

    def last_sequence(self, producer: str) -> int | None:
        """Returns the sequence of the producer's last record, confirmed or not."""
        return self._memory.last_sequence(producer)

    def confirmed(self, end: int, time_us: int) -> None:
        """Notes that all records before this position are confirmed."""
        self._memory.confirmed(end, time_us)
        self._report_forgotten()

    async def write(self, position: int, time_us: int) -> None:
        """Writes the snapshot at this position. All records before the position must be confirmed for good."""
        if not _may_have_producers(self._chain.record, position):
            return
        self.confirmed(position, time_us)
        snapshot = self._memory.snapshot(time_us)
        self._report_forgotten()
        with metadata_errors():
            await self._store.write(position, snapshot)

    async def drop_before(self, position: int) -> None:
        """Deletes snapshots that are no longer needed because the last segment begins at this position. Snapshots that
        cannot be deleted now are deleted by a later call."""
        try:
            with metadata_errors():
                await self._store.drop_before(position)
        except LedgerError as error:
            log.info(
                "old producer snapshots of log %r could not be deleted: %s",
                self._chain.record.name,
                error,
            )

    def _report_forgotten(self) -> None:
        if self._metrics is not None:
            self._metrics.forgotten_producers.inc(self._memory.forgotten_count - self._counted)
        self._counted = self._memory.forgotten_count
        count = self._memory.forgotten_count - self._forgotten
        if count and self._log_limit.admit(time.monotonic()) is not None:
            self._forgotten += count
            line = "log %r has forgotten %d more producers, %d in total: records that they append again are refused"
            log.warning(line, self._chain.record.name, count, self._forgotten)


def _may_have_producers(record: LogRecord, position: int) -> bool:
    """Returns whether records before the position may have a producer."""
    return record.producers_from is not None and position > record.producers_from


async def _memory_at(
    chain: LogChain, ledgers: LogSegmentLedgers, epoch: int, ended: Segment | None
) -> ProducerMemory:
    record = chain.record
    end = record.paged_through if ended is None else ended.end_position
    assert end is not None
    if not _may_have_producers(record, end):
        return ProducerMemory()
    is_end_recorded = record.last is None or record.last.is_ended
    position = end if is_end_recorded or ended is None else ended.first_position
    memory = await _memory_of(chain, ledgers, epoch, position)
    if ended is not None and position < end:
        await _read_segment(memory, ledgers, ended)
    return memory


async def _memory_of(
    chain: LogChain, ledgers: LogSegmentLedgers, epoch: int, position: int
) -> ProducerMemory:
    """Returns the state at a position where a segment begins or the log ends."""
    if not _may_have_producers(chain.record, position):
        return ProducerMemory()
    with metadata_errors():
        found = await ProducerStore(chain.logs.store, chain.record.identity).read(position)
    if found is not None:
        return ProducerMemory(found)
    record = await chain.refresh()
    if record.epoch != epoch:  # a later writer has taken over and does not need this state
        raise LogFenced(record.name, record.writer or "unnamed", record.epoch)
    return await _read_all(chain, ledgers, position)


async def _read_all(chain: LogChain, ledgers: LogSegmentLedgers, end: int) -> ProducerMemory:
    """Reads the state from the log itself, because rebuilt metadata has no snapshot. The state does not cover truncated
    records."""
    record = chain.record
    start = max(record.first_position, record.producers_from or 0)
    if start >= end:
        return ProducerMemory()
    line = "log %r has no snapshot of its producers at position %d: reading it from position %d on"
    log.warning(line, record.name, end, start)
    memory = ProducerMemory()
    await _read_between(memory, chain, ledgers, start, end)
    return memory


async def snapshot_before(
    chain: LogChain, ledgers: LogSegmentLedgers, position: int
) -> ProducerSnapshot | None:
    """Returns the state at a confirmed position, from the latest snapshot before it and the records since then; None if
    there is no such snapshot."""
    with metadata_errors():
        found = await ProducerStore(chain.logs.store, chain.record.identity).latest(position)
    if found is None:
        return None
    start, snapshot = found
    memory = ProducerMemory(snapshot)
    await _read_between(memory, chain, ledgers, start, position)
    return memory.snapshot(0)


async def _read_between(
    memory: ProducerMemory, chain: LogChain, ledgers: LogSegmentLedgers, start: int, stop: int
) -> None:
    """Adds to the memory the producers of the confirmed records from `start` up to but not including `stop`."""
    known = KnownEnd()
    known.advance_to(stop)
    async with aclosing(LogReader(chain, ledgers, known).batches(start, stop)) as batches:
        async for batch in batches:
            if batch.positions:
                memory.read(batch.producers, batch.sequences, batch.positions[0], batch.times[-1])


async def _read_segment(memory: ProducerMemory, ledgers: LogSegmentLedgers, segment: Segment) -> None:
    reader = await ledgers.open(segment)
    async with aclosing(reader.pages()) as pages:
        async for columns in pages:
            batch = decode(columns, segment_start=segment.first_position)
            memory.read(batch.producers, batch.sequences, batch.positions[0], batch.times[-1])
