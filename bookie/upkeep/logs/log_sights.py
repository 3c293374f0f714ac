"""What an auditor sees of logs and their cursors: where they stand in the metadata, and their lags, as bookies tell."""

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
from metadata.records.unreadable import skip
from metadata.store import MetadataStore, list_all

LOGS_TOLD_MAX = 1000
CURSORS_TOLD_MAX = 1000
"""Logs, and cursors in all, that one auditor tells of: each is some series in Prometheus."""

LAG_SECONDS_MAX = 2.0
"""How long bookies are waited for that are asked for the lags of one page of logs."""

Lag = tuple[int, float]
"""Records that a cursor's reader has still to use, and the age of the oldest of them in seconds."""

AskLag = Callable[[LogRecord, int], Awaitable[Lag | None]]
"""The lag of a log's reader at a position; None where nobody can tell."""


async def lag_unknown(_: LogRecord, __: int) -> None:
    """Asks nobody."""


@dataclass(frozen=True, slots=True)
class CursorSight:
    """Where a cursor stands, and how far it is behind; None where nobody could tell."""

    name: str
    record: CursorRecord
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class LogSight:
    """A log. `ended_position`: behind the last segment that has ended."""

    name: str
    first_position: int
    ended_position: int
    cursors: tuple[CursorSight, ...]


async def look_at(
    store: MetadataStore, records: Sequence[LogRecord], ask: AskLag, cursors_max: int
) -> list[LogSight]:
    """These logs, which are in the order of their keys, with so many cursors in all. Raises MetadataError."""
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
    """The cursors of these logs, and of those between them: of which log each is, its name and its record."""
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
    """Nobody is asked where all that the log will ever have has been used, or nothing was appended yet."""
    if record.end_position is not None and position >= record.end_position:
        return 0, 0.0
    try:
        async with asyncio.timeout(LAG_SECONDS_MAX):
            return await ask(record, position)
    except TimeoutError:
        return None
