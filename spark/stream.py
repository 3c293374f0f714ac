"""`spark.readStream.format("ledger")`: ledgers as they close, or the segments of a journal as they are finalized.

Each micro-batch is whole ledgers, each delivered once, in order of ids as far as they close in that order. What a batch
held is found again from its offsets alone, so a restart from the checkpoint repeats exactly what it must.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ledgers import LedgerClient, LedgerError, LedgerRecord, NoSuchLedger
from metadata import open_store
from metadata.ledger_store import LedgerStore

from .journal_segments import Segment, finalized_segments
from .offsets import JournalOffset, KnownId, LedgersOffset, missing_id
from .options import LedgerOptions
from .planning import plan
from .selection import Extent, Selection
from .source import LedgerPartition

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_TXID = 1
TXID_MAX = 2**63 - 1


def stream_of(options: LedgerOptions, schema: StructType) -> LedgerStream:
    """The stream that the options ask for."""
    if options.journal is not None:
        return JournalSegmentsStream(options, schema)
    return ClosedLedgersStream(options, schema)


class LedgerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What the two streams have in common: tasks, reading, and the rate limit `max_bytes_per_trigger`.

    Needs Spark 4.2 or newer, which tells a source where a batch begins and how much it may hold.
    """

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        self._options = options
        self._names = options.columns_of(schema)
        self._access = options.access()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    @abstractmethod
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset behind the next batch, which is `start` where there is nothing to read."""

    @abstractmethod
    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes what "all that is there now" is, for as many batches as the rate limit makes of it."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from .reading import record_batches

        assert isinstance(partition, LedgerPartition)
        return record_batches(self._access, partition.ranges, self._names)

    def _extents(self, ledger_ids: Iterable[int]) -> list[Extent]:
        """All of these ledgers, which are closed. Raises LedgerError for one that is gone."""
        try:
            with self._access.uri() as uri, LedgerClient(uri) as client:
                return Selection().of_ledgers(ledger_ids).resolve(client, self._access.password)
        except NoSuchLedger as gone:
            raise LedgerError(
                f"ledger {gone.ledger_id} of this micro-batch is gone: it was deleted before the stream had read it"
            ) from gone

    def _tasks(self, ledger_ids: Iterable[int]) -> list[LedgerPartition]:
        tasks = plan(self._extents(ledger_ids), self._options.partition_bytes, self._options.partitions_min)
        return [LedgerPartition(ranges) for ranges in tasks]


class ClosedLedgersStream(LedgerStream):
    """All chosen ledgers, each once it is closed.

    An id chosen by hand that is below those delivered already, and used long after them, is not seen.
    """

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._only: frozenset[int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return LedgersOffset().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        _, chosen = asyncio.run(self._listed(0))
        self._only = frozenset(record.ledger_id for record in chosen if record.is_closed)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = LedgersOffset.from_json(start)
        known, chosen = asyncio.run(self._listed(offset.below))
        new = {r.ledger_id: r.length_bytes or 0 for r in chosen if self._is_due(r, offset)}
        admitted = offset.admitted(new)
        taken = admitted[: how_many_fit([new[ledger_id] for ledger_id in admitted], limit)]
        waiting = {record.ledger_id for record in chosen}.difference(taken)
        missing = missing_id(known, offset.below, time.time_ns() // 1_000_000)
        if missing is not None:
            waiting.add(missing)
        end = known[-1].ledger_id + 1 if known else offset.below
        return offset.after(taken, waiting, end).to_json()

    def _is_due(self, record: LedgerRecord, offset: LedgersOffset) -> bool:
        wanted = self._only is None or record.ledger_id in self._only
        return record.is_closed and wanted and not offset.has(record.ledger_id)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LedgerPartition]:
        return self._tasks(LedgersOffset.from_json(end).batch) if start != end else []

    async def _listed(self, first_ledger: int) -> tuple[list[KnownId], list[LedgerRecord]]:
        """Every id from this one on that has or had a ledger, and the records of those that are chosen."""
        known: list[KnownId] = []
        chosen: list[LedgerRecord] = []
        with self._access.uri() as uri:
            store = await open_store(uri)
            try:
                async for ledger_id, found in LedgerStore(store).list_with_deleted(first_ledger):
                    known.append(KnownId(ledger_id, found.record.created_ms if found else None))
                    if found and self._options.selection.wants(found.record):
                        chosen.append(found.record)
            finally:
                await store.close()
        return known, chosen


class JournalSegmentsStream(LedgerStream):
    """The finalized segments of a journal, in order of transactions."""

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._end_txid = TXID_MAX

    def initialOffset(self) -> dict[str, Any]:
        return JournalOffset(FIRST_TXID).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        segments = self._segments(FIRST_TXID)
        self._end_txid = segments[-1].end_txid + 1 if segments else FIRST_TXID

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = JournalOffset.from_json(start)
        segments = [s for s in self._segments(offset.txid) if s.end_txid < self._end_txid]
        extents = self._extents(segment.ledger_id for segment in segments)
        lengths = {extent.record.ledger_id: extent.record.length_bytes or 0 for extent in extents}
        fitting = how_many_fit([lengths[segment.ledger_id] for segment in segments], limit)
        reached = segments[fitting - 1].end_txid + 1 if fitting else offset.txid
        return JournalOffset(reached).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LedgerPartition]:
        before, after = JournalOffset.from_json(start), JournalOffset.from_json(end)
        segments = [s for s in self._segments(before.txid) if s.end_txid < after.txid]
        reached = segments[-1].end_txid + 1 if segments else before.txid
        if reached != after.txid or (segments and segments[0].start_txid > before.txid > FIRST_TXID):
            raise LedgerError(
                f"journal {self._options.journal} no longer has all transactions from {before.txid} to "
                f"{after.txid - 1}: they were purged before the stream had read them"
            )
        return self._tasks(segment.ledger_id for segment in segments)

    def _segments(self, from_txid: int) -> list[Segment]:
        assert self._options.journal is not None
        with self._access.uri() as uri:
            return asyncio.run(
                finalized_segments(uri, self._options.journal, self._options.acceptors, from_txid)
            )


def how_many_fit(lengths: Sequence[int], limit: ReadLimit) -> int:
    """How many of these, in their order, fit the limit; one always does."""
    if not isinstance(limit, ReadMaxBytes):
        return len(lengths)
    fitting = sum(1 for total in accumulate(lengths) if total <= limit.max_bytes)
    return min(len(lengths), max(1, fitting))
