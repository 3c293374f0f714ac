"""Streams a journal's segments as they are finalized, for as long as the journal's history is not rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes
from pyspark.sql.types import StructType

from ledgers import LedgerError

from ..planning.journal_segments import JournalSegment, finalized_segments, was_dropped
from ..planning.ledger_records import records_of
from ..planning.options import LedgerOptions
from ..planning.partition import TaskPartition
from ..planning.ranges import LedgerRange
from ..planning.selection import LOOKED_UP_MAX
from .metadata_stream import LedgerStream, how_many_fit
from .offsets import FIRST_TXID, JournalOffset

BEGIN_AGAIN = "begin again with a new checkpointLocation, and drop the output of the old one"


class JournalSegmentsStream(LedgerStream):
    """Streams the finalized segments of a journal, in order of transactions, starting with the oldest.

    Ends with LedgerError if the delivered segments are no longer part of the journal's history (after a rollback, a
    discard or a format). Unless the option failOnDataLoss is false, it also ends with LedgerError if segments were
    purged before they were read. So no edit is delivered twice, and none is skipped silently.
    """

    def __init__(self, options: LedgerOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        assert options.journal is not None
        self._journal = options.journal
        self._acceptors = ",".join(options.acceptors)
        self._end_txid: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        return JournalOffset(self._journal, self._acceptors).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offset = self._offset(start)
        delivered = self._look(partial(self._next, offset=offset, limit=limit))
        return start if delivered is None else self._after(offset, delivered).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TaskPartition[LedgerRange]]:
        before, after = self._offset(start), self._offset(end)
        if before == after:
            return []
        segments = self._metadata.ask(partial(self._batch, before=before, after=after))
        return self._tasks(segment.ledger_id for segment in segments)

    def _offset(self, value: dict[str, Any]) -> JournalOffset:
        return JournalOffset.from_json(value, self._journal, self._acceptors)

    def _after(self, offset: JournalOffset, delivered: Sequence[JournalSegment]) -> JournalOffset:
        if not delivered:
            return offset
        first, last = delivered[0], delivered[-1]
        return replace(
            offset,
            txid=last.end_txid + 1,
            batch_txid=first.start_txid,
            segment_txid=last.start_txid,
            ledger_id=last.ledger_id,
            acceptor=last.acceptor,
            generation=last.generation,
        )

    async def _next(self, uri: str, offset: JournalOffset, limit: ReadLimit) -> Sequence[JournalSegment]:
        """Returns the segments of the next batch."""
        found = await self._following(uri, offset)
        if self._available_now and self._end_txid is None:
            self._end_txid = found[-1].end_txid if found else offset.txid - 1
        due = [one for one in found if self._end_txid is None or one.end_txid <= self._end_txid]
        return await _fitting(uri, due, limit)

    async def _following(self, uri: str, offset: JournalOffset) -> list[JournalSegment]:
        """Returns the segments after an offset. Raises LedgerError if they do not continue the delivered ones."""
        if offset.ledger_id is None:
            return await finalized_segments(uri, self._journal, self._options.acceptors, FIRST_TXID)
        if await was_dropped(uri, self._journal, offset.acceptor, offset.generation, offset.txid):
            raise LedgerError(self._rewritten(offset))
        found = await finalized_segments(uri, self._journal, self._options.acceptors, offset.txid - 1)
        if found and found[0].start_txid < offset.txid:
            if not await self._is_last_of(uri, found[0], offset):
                raise LedgerError(self._rewritten(offset))
            return found[1:]
        if found and found[0].start_txid > offset.txid:
            self._go_on_without(self._purged(offset.txid, found[0].start_txid - 1))
        if not found and await finalized_segments(uri, self._journal, self._options.acceptors):
            raise LedgerError(self._rewritten(offset))  # older segments still exist, so this is not a purge
        return found

    async def _batch(self, uri: str, before: JournalOffset, after: JournalOffset) -> list[JournalSegment]:
        """Returns the segments between two offsets, as they were delivered before. Raises LedgerError if they have
        changed."""
        segments = [one for one in await self._following(uri, before) if one.end_txid < after.txid]
        if not segments or segments[0].start_txid > after.batch_txid:
            left = segments[0].start_txid if segments else after.txid
            self._go_on_without(self._purged(after.batch_txid, left - 1))
        if not segments:
            return []
        if not await self._is_last_of(uri, segments[-1], after):
            raise LedgerError(self._rewritten(after))
        return segments

    async def _is_last_of(self, uri: str, segment: JournalSegment, offset: JournalOffset) -> bool:
        """Returns whether an offset ends with this segment or, if there are several acceptors, with any copy of it."""
        if (segment.start_txid, segment.end_txid) != (offset.segment_txid, offset.txid - 1):
            return False
        if segment.ledger_id == offset.ledger_id:
            return True
        if len(self._options.acceptors) == 1:
            return False
        return offset.ledger_id in await self._copies(uri, segment)

    async def _copies(self, uri: str, segment: JournalSegment) -> list[int]:
        """Returns the ledgers of all acceptors' copies that contain exactly the segment's transactions."""
        copies = []
        for acceptor in self._options.acceptors:
            with suppress(LedgerError):  # this acceptor does not have the journal
                found = await finalized_segments(
                    uri, self._journal, (acceptor,), segment.start_txid, segment.end_txid
                )
                copies += [one.ledger_id for one in found if one.end_txid == segment.end_txid]
        return copies

    def _purged(self, first_txid: int, last_txid: int) -> str:
        return (
            f"journal {self._journal} no longer has transactions {first_txid} to {last_txid}: they were purged before "
            "the stream had read them"
        )

    def _rewritten(self, offset: JournalOffset) -> str:
        return (
            f"journal {self._journal} was rewritten: transactions {offset.segment_txid} to {offset.txid - 1} were "
            f"read from ledger {offset.ledger_id}, and are no longer its history; {BEGIN_AGAIN}"
        )


async def _fitting(
    uri: str, segments: Sequence[JournalSegment], limit: ReadLimit
) -> Sequence[JournalSegment]:
    """Returns as many segments as the limit allows, without looking up more ledgers than necessary."""
    if not isinstance(limit, ReadMaxBytes):
        return segments
    lengths: list[int] = []
    for low in range(0, len(segments), LOOKED_UP_MAX):
        some = [segment.ledger_id for segment in segments[low : low + LOOKED_UP_MAX]]
        found = await records_of(uri, some)
        # A deleted ledger is reported when the batch is planned.
        lengths += [(found[i].length_bytes or 0) if i in found else 0 for i in some]
        if how_many_fit(lengths, limit) < len(lengths):
            break
    return segments[: how_many_fit(lengths, limit)]
