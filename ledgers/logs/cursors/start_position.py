"""Places where a cursor can start or to which it can be moved."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from typing import Literal, Protocol

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment

from ...entry import wrong_type
from ...errors import LogTruncated
from ..record_batch import RecordBatch

Where = int | datetime | Literal["beginning", "end"]
"""A position; a time, for the first record appended at that time or later; "beginning", for the oldest remaining
record; or "end", for the position after the last record."""


class ReadableLog(Protocol):
    """The part of `ledgers.logs.log.Log` that cursors need."""

    @property
    def name(self) -> str: ...

    async def refresh(self) -> LogRecord: ...

    @property
    def known_end(self) -> int: ...

    async def end(self) -> int: ...

    async def check_reaches(self, position: int) -> None: ...

    async def position_at(self, time: datetime) -> int: ...

    def batches(
        self, start: int | None = None, stop: int | None = None
    ) -> AsyncGenerator[RecordBatch, None]: ...

    def tail_committed(
        self, start: int | None, *, timeout: float | None
    ) -> AsyncGenerator[RecordBatch, None]: ...

    def segments(self, start: int | None = None) -> AsyncIterator[Segment]: ...


async def position_of(log: ReadableLog, where: Where) -> int:
    """Resolves a place to its current position in the log. Raises NoSuchPosition or LogTruncated for a position that
    the log does not have; also raises ValueError, TypeError."""
    match where:
        case "beginning":
            return (await log.refresh()).first_position
        case "end":
            return await log.end()
        case datetime():
            return await log.position_at(where)
        case int():
            first = (await log.refresh()).first_position
            await log.check_reaches(where)
            if where < first:
                raise LogTruncated(log.name, where, first)
            return where
        case str():
            raise ValueError(f"pass a position, a time, 'beginning' or 'end', not {where!r}")
    raise wrong_type("a place in a log", "a position, a datetime, 'beginning' or 'end'", where)
