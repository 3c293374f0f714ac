"""Reads a segment from any acceptor that has it. If a copy fails, continues with another one, at the first transaction
that was not read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from ..acceptor.copying import SegmentReader, checked_part
from ..batch import Batch
from ..edits import EditLogError, EditOp, iter_ops
from ..errors import JournalError, JournalUnavailable, SegmentUnavailable, SegmentUnreadable
from .segments_seen import SegmentSeen


class EditLogInputStream:
    """The edits `first_txid` … `last_txid` of one segment. May be read several times.

    If a copy fails, is damaged or ends early, reading continues with another copy, at the first transaction that was
    not read.
    """

    def __init__(self, segment: SegmentSeen, readers: Mapping[int, SegmentReader], from_txid: int) -> None:
        self.segment_txid = segment.first_txid
        self.first_txid = max(segment.first_txid, from_txid)
        self.last_txid = segment.last_txid
        self.is_in_progress = segment.in_progress
        self.layout_version = 0
        self._segment = segment
        self._readers = readers

    async def __aiter__(self) -> AsyncGenerator[EditOp, None]:
        """Yields the decoded edits. Raises SegmentUnreadable if no copy has the next edit; the edits already yielded
        remain valid."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for op in decoded(batch, self.layout_version):
                    yield op

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields the same edits in the batches in which they were flushed, with frames and checksums verified."""
        next_txid = self.first_txid
        said: dict[int, Exception] = {}
        turn = 0
        failures = 0  # consecutive failures, without a new edit in between
        while next_txid <= self.last_txid:
            copy = self._segment.copies[turn % len(self._segment.copies)]
            before = next_txid
            try:
                async with aclosing(self._copy(copy.acceptor, next_txid)) as parts:
                    async for part in parts:
                        yield part
                        next_txid = part.last_txid + 1
            except JournalError as error:
                said[copy.acceptor] = error
                turn += 1
            failures = 0 if next_txid > before else failures + 1
            if failures >= len(self._segment.copies):
                raise self._unreadable(next_txid, said)

    async def _copy(self, acceptor: int, from_txid: int) -> AsyncGenerator[Batch, None]:
        """Yields the batches of one copy, from `from_txid` to the end of the copy or of the segment."""
        content = await self._readers[acceptor].read_segment(self.segment_txid, from_txid)
        self.layout_version = content.layout_version
        next_txid = from_txid
        async with aclosing(content.batches) as batches:
            async for batch in batches:
                part = checked_part(batch, next_txid, self.last_txid)
                yield part
                next_txid = part.last_txid + 1
                if next_txid > self.last_txid:
                    return
        raise SegmentUnreadable(f"it ends at txid {next_txid - 1}, not at {self.last_txid}")

    def _unreadable(self, txid: int, said: Mapping[int, Exception]) -> SegmentUnreadable:
        copies = "; ".join(f"{getattr(self._readers[n], 'name', n)}: {error}" for n, error in said.items())
        is_away = any(isinstance(error, JournalUnavailable) for error in said.values())
        return (SegmentUnavailable if is_away else SegmentUnreadable)(
            f"no copy of segment {self.segment_txid}-{self.last_txid} has txid {txid}: {copies}"
        )


def decoded(batch: Batch, layout_version: int) -> list[EditOp]:
    """Decodes the ops of a batch. Raises SegmentUnreadable if one is invalid."""
    try:
        return list(iter_ops(batch.records, layout_version))
    except EditLogError as error:
        raise SegmentUnreadable(f"the batch of txid {batch.first_txid} cannot be decoded: {error}") from error
