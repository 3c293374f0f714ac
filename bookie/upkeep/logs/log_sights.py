"""An auditor's view of logs and their cursors: their positions in the metadata, and the lags that bookies report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from metadata import keys
from metadata.errors import BadRecord
from metadata.records.coordination import cursor_record
from metadata.records.coordination.cursor_record import CursorRecord
from metadata.records.logs.log_record import LogRecord
from metadata.records.record_decoding import skip
from metadata.store import MetadataStore, list_all

LOGS_REPORTED_MAX = 1000
CURSORS_REPORTED_MAX = 1000
"""Maximum number of logs, and of cursors of all logs, that one auditor reports: each adds several time series to
Prometheus."""

LAG_SECONDS_MAX = 2.0
"""Maximum seconds to wait for bookies to report the lags of one page of logs."""

Lag = tuple[int, float]
"""The number of records that a cursor's reader has not processed yet, and the age of the oldest of them in seconds."""

AskLag = Callable[[LogRecord, int], Awaitable[Lag | None]]
"""Returns the lag of a log's reader at a position; None if it is unknown."""


async def lag_unknown(_: LogRecord, __: int) -> None:
    """Returns None without asking a bookie."""


@dataclass(frozen=True, slots=True)
class CursorSight:
    """A cursor's record and its lag; the lag is None if it is unknown."""

    name: str
    record: CursorRecord
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class LogSight:
    """A log. `ended_position`: the position after the last ended segment."""

    name: str
    first_position: int
    ended_position: int
    cursors: tuple[CursorSight, ...]


async def look_at(
    store: MetadataStore, records: Sequence[LogRecord], ask: AskLag, cursors_max: int
) -> list[LogSight]:
    """Reads the state of these logs, which must be in order of their keys, with at most `cursors_max` cursors in total.
    Raises MetadataError."""
    found: dict[bytes, list[CursorSight]] = {one.identity: [] for one in records}
    wanted: list[tuple[LogRecord, str, CursorRecord]] = []
    by_key = {one.identity.hex(): one for one in records}
    async with aclosing(_cursors(store, records)) as cursors:
        async for identity, name, cursor in cursors:
            if len(wanted) == cursors_max:
                break
            if identity in by_key:
                wanted.append((by_key[identity], name, cursor))
    lags = await asyncio.gather(*(_lag(ask, record, cursor.position) for record, _, cursor in wanted))
    for (record, name, cursor), lag in zip(wanted, lags, strict=True):
        found[record.identity].append(CursorSight(name, cursor, lag))
    return [
        LogSight(one.name, one.first_position, one.ended_position, tuple(found[one.identity]))
        for one in records
    ]


async def _cursors(
    store: MetadataStore, records: Sequence[LogRecord]
) -> AsyncGenerator[tuple[str, str, CursorRecord], None]:
    """Yields the cursors of these logs, and of any other logs whose keys lie between theirs. Each item contains the
    log's identity, the cursor's name and its record."""
    if not records:
        return
    last = keys.cursors(records[-1].identity)
    async for item in list_all(store, keys.CURSORS, after=keys.cursors(records[0].identity)):
        if item.key > last and not item.key.startswith(last):
            return
        identity, _, name = item.key.removeprefix(keys.CURSORS).partition("/")
        try:
            yield identity, name, cursor_record.decode(item.key, item.value)
        except BadRecord as error:
            skip(error)


async def _lag(ask: AskLag, record: LogRecord, position: int) -> Lag | None:
    """Returns the lag at a position. Asks no bookie if the reader has processed all records that the log will ever
    have."""
    if record.end_position is not None and position >= record.end_position:
        return 0, 0.0
    try:
        async with asyncio.timeout(LAG_SECONDS_MAX):
            return await ask(record, position)
    except TimeoutError:
        return None
