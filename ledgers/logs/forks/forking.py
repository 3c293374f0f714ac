"""Forks: new logs that have the records of a log before a position, without copying them (rule L13).

A fork has a name from the beginning, but cannot be opened before it is complete: if its maker dies first, the
incomplete log can only be deleted. A fork shares no ledger until the logs that made its ledgers have recorded the fork;
from then on, those logs delete none of these ledgers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from metadata.audit import Act, record_audit
from metadata.records.ledger_record import IDENTITY_BYTES
from metadata.records.logs.log_record import PAGE_SEGMENTS, LogRecord
from metadata.records.logs.log_store import LogStore, VersionedLog
from metadata.records.logs.producer_record import ProducerStore
from metadata.records.logs.segment import Segment
from metadata.records.logs.shared_ledgers import Fork
from metadata.settled_writes import until_changed

from ...cluster import Cluster
from ...errors import LedgerError, LogTruncated
from ...record_change import metadata_errors
from ..log_access import check_may_change
from ..log_chain import LogChain
from ..log_segment_ledgers import LogSegmentLedgers, time_of
from ..producers.producer_state_manager import snapshot_before

FORK_PAGE_SEGMENTS = 4 * PAGE_SEGMENTS
"""The number of segments in each page of a new fork: more than in other pages, so that making a fork writes fewer pages
than it reads."""

PAGES_AT_ONCE_MAX = 16


def new_fork(cluster: Cluster, record: LogRecord, name: str, at: int) -> LogRecord:
    """Returns the record of a fork to be made. Raises NotAllowed, LogTruncated."""
    check_may_change(cluster)
    if at < record.first_position:
        raise LogTruncated(record.name, at, record.first_position)
    identity = cluster.rng.randbytes(IDENTITY_BYTES)
    return record.forked(identity, name, at, time.time_ns() // 1_000_000)


class Forking:
    """Completes one fork whose record already exists. If it raises an error, the caller must delete the fork."""

    def __init__(self, of: LogChain, fork: VersionedLog, ledgers: LogSegmentLedgers, at: int) -> None:
        self._of = of
        self._chain = LogChain(of.logs, fork)
        self._logs: LogStore = of.logs
        self._ledgers = ledgers
        self._at = at

    async def complete(self) -> VersionedLog:
        record = self._chain.record
        with metadata_errors():
            await self._register(record)
            segments = await self._segments(record.first_position)
        await self._remember_producers(record)
        kept = segments[-PAGE_SEGMENTS:]
        await self._put_pages(segments[: len(segments) - len(kept)])
        await self._chain.change(lambda record: record.with_shared(tuple(kept)))
        record_audit(
            Act.FORK,
            who=self._ledgers.cluster.who,
            log=self._of.record.name,
            to=record.name,
            position=self._at,
        )
        return self._chain.found

    async def _register(self, record: LogRecord) -> None:
        """Records, in each log that made some of the fork's ledgers, that the fork needs these ledgers. Raises
        LogTruncated if such a log no longer has them."""
        start = record.first_position
        for maker in record.makers:
            fork = Fork(record.identity, start, maker.stop)
            read = partial(self._logs.read, maker.identity)
            await until_changed(f"log {maker.identity.hex()}", await read(), partial(self._name, fork), read)
            start = maker.stop

    async def _name(self, fork: Fork, found: VersionedLog | None) -> None:
        of = self._of.record
        has_it = found is not None and (
            found.record.first_position <= fork.start and not found.record.deleted
            if found.record.identity == of.identity
            else any(one.identity == of.identity and one.start <= fork.start for one in found.record.forks)
        )
        if found is None or not has_it:
            raise LogTruncated(of.name, fork.start, (await self._of.refresh()).first_position)
        try:
            named = found.record.with_fork(fork)
        except ValueError as error:
            raise LedgerError(str(error)) from None
        await self._logs.change(named, found.version)

    async def _segments(self, start: int) -> list[Segment]:
        """Returns the shared segments; the last one ends where the fork ends."""
        found: list[Segment] = []
        record = await self._of.refresh()
        async for segment in self._logs.segments(record, start):
            if max(start, segment.first_position) >= self._at:
                break
            is_in_page = segment.first_position < record.paged_through
            found.append(segment.before(record.paged_us) if is_in_page else segment)
        if found and (found[-1].end_position is None or found[-1].end_position > self._at):
            found[-1] = await self._cut(found[-1])
        return found

    async def _cut(self, segment: Segment) -> Segment:
        """Returns the shared part of a segment. Its records are confirmed, although its ledger may still be open."""
        reader = await self._ledgers.open(segment)
        reader.is_confirmed(self._at - segment.first_position - 1)
        records = self._at - segment.first_position
        length = (reader.length_bytes or 0) * records // (reader.last_add_confirmed + 1)
        return replace(segment, end_position=None).ended(
            self._at, await time_of(reader, segment, self._at - 1), length
        )

    async def _remember_producers(self, record: LogRecord) -> None:
        """Writes the snapshot of producers at the fork's end. Without the snapshot, the fork's first writer would have
        to read the whole fork."""
        if record.producers_from is None:
            return
        snapshot = await snapshot_before(self._of, self._ledgers, self._at)
        if snapshot is not None:
            store = ProducerStore(self._logs.store, record.identity)
            with metadata_errors():
                await store.write(self._at, snapshot)

    async def _put_pages(self, segments: Sequence[Segment]) -> None:
        turns = asyncio.Semaphore(PAGES_AT_ONCE_MAX)

        async def put(first: int) -> None:
            async with turns:
                page = tuple(segments[first : first + FORK_PAGE_SEGMENTS])
                await self._logs.put_page(self._chain.record.identity, page)

        with metadata_errors():
            await asyncio.gather(*map(put, range(0, len(segments), FORK_PAGE_SEGMENTS)))
