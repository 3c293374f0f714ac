"""Lag: how far a cursor is behind its log."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass

from metadata.records.logs.segment import Segment

from ..record_batch import HEAD_BYTES
from .start_position import ReadableLog


@dataclass(frozen=True, slots=True)
class Lag:
    """How much a cursor's reader has left to read."""

    records: int
    """The number of records that remain in the log and have not yet been used."""
    bytes: int
    """The approximate size of these records, including keys and headers."""
    seconds: float
    """How long ago the oldest of these records was appended; 0 if there are none."""
    truncated: int = 0
    """The number of records that were truncated before they were used. If it is not 0, the cursor is before the oldest
    remaining record, and stays there until a seek moves it."""


async def lag_of(log: ReadableLog, position: int) -> Lag:
    """Returns the lag at a position. Raises the errors of reading the record at that position, if there is one."""
    first, end = (await log.refresh()).first_position, await log.end()
    truncated, position = max(0, first - position), max(first, position)
    if position >= end:
        return Lag(0, 0, 0.0, truncated)
    time_us, size_bytes = await _oldest(log, position)
    seconds = max(0.0, time.time() - time_us / 1_000_000)
    return Lag(end - position, await _bytes(log, position, end, size_bytes), seconds, truncated)


async def _oldest(log: ReadableLog, position: int) -> tuple[int, int]:
    """Returns when the record at the position was appended, and its size without headers."""
    async with aclosing(log.batches(position, position + 1)) as batches:
        async for batch in batches:
            return batch.times[0], HEAD_BYTES + len(batch.keys[0] or b"") + len(batch.payloads[0])
    raise AssertionError("every position before the end has a record")


async def _bytes(log: ReadableLog, position: int, end: int, record_bytes: float) -> int:
    """Returns the approximate size of the records from `position` up to, but not including, `end`. Uses the recorded
    lengths of ended segments; assumes that the records of the open segment have the same average size as earlier ones.
    """
    total = 0.0
    async for segment in log.segments(position):
        records = min(segment.end_position or end, end) - max(segment.first_position, position)
        if segment.is_ended and not segment.is_empty:
            record_bytes = segment.length_bytes / _records(segment)
        total += max(0, records) * record_bytes
    return round(total)


def _records(segment: Segment) -> int:
    assert segment.end_position is not None
    return segment.end_position - segment.first_position
