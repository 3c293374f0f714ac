"""One segment of a log, opened for reading: its entries as records with their positions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from metadata.records.logs.segment import Segment

from ...reading.read_handle import ReadHandle
from ..record_batch import RecordBatch, decode
from ..segment_ledgers import time_of


class OpenSegment:
    """A segment and a reader of its ledger. Returns only confirmed records."""

    def __init__(self, segment: Segment, reader: ReadHandle, known_end: int) -> None:
        """`known_end`: the log's end, as it was known before the ledger's record was read. If the ledger was open then,
        nothing behind it was confirmed (rule L2)."""
        self.segment = segment
        self._reader = reader
        # A fork shares a ledger up to a confirmed position: it may go on behind that, and still be open (rule L13).
        reader.is_confirmed(self._entry(segment.end_position or known_end) - 1)

    @property
    def end(self) -> int:
        """The position behind the last record that is known to be confirmed."""
        confirmed = self.segment.first_position + self._reader.last_add_confirmed + 1
        return confirmed if self.segment.end_position is None else min(confirmed, self.segment.end_position)

    @property
    def is_closed(self) -> bool:
        """Whether the segment's end is final."""
        return self.segment.is_ended or self._reader.is_closed

    async def batches(self, start: int, stop: int) -> AsyncGenerator[RecordBatch, None]:
        """Yields the records from `start` to before `stop`, or to the segment's end."""
        last = min(stop, self.end) - 1
        async with aclosing(self._reader.pages(self._entry(start), self._entry(last))) as pages:
            async for columns in pages:
                yield decode(columns, segment_start=self.segment.first_position)

    async def tail(self, start: int, timeout: float | None) -> AsyncGenerator[RecordBatch, None]:
        """Yields records as they are confirmed, until the ledger is closed or there is nothing new for `timeout` s."""
        if self.segment.is_ended:
            async with aclosing(self.batches(start, self.end)) as batches:
                async for batch in batches:
                    yield batch
            return
        async with aclosing(self._reader.tail_pages(self._entry(start), timeout=timeout)) as pages:
            async for columns in pages:
                yield decode(columns, segment_start=self.segment.first_position)

    async def position_at(self, time_us: int, first_position: int) -> int:
        """The first position, from this one on, whose record has this time or a later one; the end if there is none."""
        low, high = max(self.segment.first_position, first_position), self.end
        while low < high:
            middle = (low + high) // 2
            if await time_of(self._reader, self.segment, middle) < time_us:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, position: int) -> int:
        return position - self.segment.first_position
