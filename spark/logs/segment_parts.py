"""Selects the parts of segments that a job reads: finds them in the metadata of logs, and divides them into tasks of
equal bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ledgers import LedgerError, LedgerRecord, LogTruncated, NoSuchLogSet, NoSuchPosition
from ledgers.aio import LedgerClient, Log
from metadata import keys, opened_store
from metadata.records.ledger_record import LedgerState
from metadata.records.logs.log_set_record import LogSetStore, log_name
from metadata.records.logs.segment import Segment

from ..planning.ledger_records import records_of
from ..planning.ranges import LedgerRange
from ..planning.selection import Extent
from .columns import ALL_TIMES, TimeRange
from .options import LogOptions

LOGS_AT_ONCE_MAX = 16
"""Maximum number of logs in a set that are queried at a time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """Records `start` … `stop` - 1 of one segment; if the selection is also by time, only those in this time range."""

    log: str
    segment: Segment
    start: int
    stop: int
    times: TimeRange = ALL_TIMES

    @property
    def last_entry(self) -> int:
        return self.stop - self.segment.first_position - 1

    def extent(self, record: LedgerRecord) -> Extent:
        return Extent(record, self.start - self.segment.first_position, self.last_entry)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Entries of a segment that a task reads. They are confirmed, although the ledger may still be open."""

    log: str
    segment_start: int
    entries: LedgerRange
    times: TimeRange


def parts_between(
    log: str, segments: Sequence[Segment], start: int, stop: int, times: TimeRange = ALL_TIMES
) -> list[Part]:
    """Returns the parts of a chain of segments with positions `start` … `stop` - 1, limited to records in this time
    range. Pure.

    Times never decrease along a log, so only the segments that contain the first and the last time are restricted by
    time; the tasks that read these two segments select the records. Raises LedgerError if segments are missing.
    """
    found: list[Part] = []
    start_us, stop_us = times
    for one in segments:
        if one.first_position > start:
            break
        end = stop if one.end_position is None else min(stop, one.end_position)
        if end <= start:
            continue
        part, start = Part(log, one, start, end), end
        if start_us is not None:
            if one.is_ended and one.ended_us < start_us:
                continue
            part, start_us = replace(part, times=TimeRange(start_us)), None
        if stop_us is not None and not (one.is_ended and one.ended_us < stop_us):
            return [*found, replace(part, times=TimeRange(part.times.start_us, stop_us))]
        found.append(part)
    if start < stop:
        raise LedgerError(
            f"log {log!r} was truncated while it was being read, at position {start}: try again"
        )
    return found


async def for_all(work: Callable[[str], Awaitable[T]], logs: Iterable[str]) -> list[T]:
    """Runs `work` for each of these logs, a bounded number at a time. The results are in the order of `logs`."""
    turns = asyncio.Semaphore(LOGS_AT_ONCE_MAX)

    async def one(log: str) -> T:
        async with turns:
            return await work(log)

    return await asyncio.gather(*map(one, logs))


async def names_of(uri: str, options: LogOptions) -> list[str]:
    """Returns the names of the selected logs. Raises NoSuchLogSet."""
    if options.log is not None:
        return [options.log]
    assert options.log_set is not None
    async with opened_store(uri) as store:
        found = await LogSetStore(store).read(keys.check_name(options.log_set))
    if found is None or found.record.deleted:
        raise NoSuchLogSet(options.log_set)
    return [log_name(options.log_set, number) for number in range(found.record.logs)]


async def parts_of_batch(uri: str, options: LogOptions, password: bytes) -> list[Part]:
    """Returns the parts that a batch reads: all selected records that are already confirmed."""
    names = await names_of(uri, options)
    async with LedgerClient(uri) as client:

        async def parts_of(name: str) -> list[Part]:
            return await _parts_of_log(await client.log(name, password=password), options)

        return [part for parts in await for_all(parts_of, names) for part in parts]


async def _parts_of_log(log: Log, options: LogOptions) -> list[Part]:
    start, stop = options.start_position, options.stop_position
    if stop is None:
        stop = await log.end()
    else:
        await log.check_reaches(stop)
    segments = [one async for one in log.segments(start)]
    left = log.record.first_position
    for position in (start, options.stop_position):
        if position is not None and position < left:
            raise LogTruncated(log.name, position, left)
    if start is not None and start > stop:
        raise NoSuchPosition(log.name, start, stop)
    return parts_between(log.name, segments, left if start is None else start, max(left, stop), options.times)


async def extents_of(uri: str, parts: Sequence[Part], password: bytes) -> tuple[list[Extent], list[Part]]:
    """Returns the extents of the parts' ledgers, in the order of the parts, and the parts whose ledgers no longer
    exist."""
    records = await records_of(uri, [part.segment.ledger_id for part in parts])
    there = [part for part in parts if part.segment.ledger_id in records]
    found = [records[part.segment.ledger_id] for part in there]
    if any(not record.is_closed for record in found):
        async with LedgerClient(uri) as client:
            found = [
                await _confirmed(client, record, part.last_entry, password)
                for record, part in zip(found, there, strict=True)
            ]
    extents = [part.extent(record) for part, record in zip(there, found, strict=True)]
    return extents, [part for part in parts if part.segment.ledger_id not in records]


async def _confirmed(
    client: LedgerClient, record: LedgerRecord, last_entry: int, password: bytes
) -> LedgerRecord:
    """Returns the ledger's record as if the ledger were closed with this last entry, so that it can be measured."""
    if record.is_closed:
        return record
    reader = await client.open_ledger(record.ledger_id, recovery=False, password=password)
    if reader.is_closed:
        return reader.record
    fragments = (
        tuple(one for one in record.fragments if one.first_entry <= last_entry) or record.fragments[:1]
    )
    length_bytes = reader.length_bytes or 0
    return replace(
        record,
        state=LedgerState.CLOSED,
        last_entry=last_entry,
        length_bytes=max(
            fragments[-1].length_before, length_bytes * (last_entry + 1) // (reader.last_add_confirmed + 1)
        ),
        fragments=fragments,
    )


async def tasks_of(
    uri: str, options: LogOptions, extents: Sequence[Extent], parts: Sequence[Part]
) -> list[tuple[LogRange, ...]]:
    """Divides these parts into tasks of equal bytes."""
    of_ledger = {part.segment.ledger_id: part for part in parts}

    def log_range(entries: LedgerRange) -> LogRange:
        part = of_ledger[entries.ledger_id]
        return LogRange(part.log, part.segment.first_position, entries, part.times)

    return [tuple(map(log_range, task)) for task in await options.tasks(uri, extents)]


def describe_deleted(parts: Sequence[Part]) -> str:
    first = parts[0]
    return (
        f"positions {first.start} to {first.stop - 1} of log {first.log} were in ledger {first.segment.ledger_id}, "
        "which was deleted before they could be read"
    )
