"""What an auditor sees of a log and its cursors in the metadata, for metrics.

Of a segment that is being written it sees only where it begins: a cursor is behind by as much at least.
"""

from __future__ import annotations

from dataclasses import dataclass

from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.logs.log_ledgers import segments_at
from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.log_store import LogStore

LOGS_TOLD_MAX = 1000
CURSORS_TOLD_MAX = 1000
"""Logs, and cursors in all, that one auditor tells of: each is some series in Prometheus."""


@dataclass(frozen=True, slots=True)
class CursorSight:
    """Where a cursor stands. `lag_seconds`: for how long it has not read something, at least."""

    name: str
    position: int
    lag_records: int
    lag_seconds: float


@dataclass(frozen=True, slots=True)
class LogSight:
    """A log. `end_position`: of what has ended."""

    name: str
    first_position: int
    end_position: int
    cursors: tuple[CursorSight, ...]


async def look_at(logs: LogStore, record: LogRecord, now_us: int, cursors_max: int) -> LogSight:
    """Raises MetadataError."""
    cursors: list[CursorSight] = []
    async for name, cursor in CursorStore(logs.store, record.identity).list():
        if len(cursors) == cursors_max:
            break
        cursors.append(await _cursor(logs, record, name, cursor, now_us))
    return LogSight(record.name, record.first_position, record.ended_position, tuple(cursors))


async def _cursor(
    logs: LogStore, record: LogRecord, name: str, cursor: CursorRecord, now_us: int
) -> CursorSight:
    wants = max(cursor.position, record.first_position)
    lag = max(0, record.ended_position - wants)
    if not lag:
        return CursorSight(name, cursor.position, 0, 0.0)
    segments = await segments_at(logs, record, wants)
    ended_us = next((one.ended_us for one in segments if one.holds(wants)), now_us)
    return CursorSight(name, cursor.position, lag, max(0, now_us - ended_us) / 1_000_000)
