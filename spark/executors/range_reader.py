"""The task of `format("ledger")` and `format("log")`: reads its ranges from bookies, in order, and yields record
batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ledgers import Columns
from ledgers.aio import LedgerClient, ReadHandle

from ..entry_columns import EntryColumns
from ..executor_access import ExecutorAccess
from ..planning.ranges import LedgerRange
from .planned_ledgers import open_closed, planned
from .task_client import MIB, read_with_client

BATCH_BYTES_MIN = MIB
"""Smaller batches are joined, because a batch of ten rows costs Spark about as much as one of a thousand."""

RANGES_AHEAD_MAX = 16
"""Maximum number of small ledgers prefetched in parallel, so that a task does not wait for each of them in turn."""

SMALL_ENTRIES_MAX = 64
"""A range with at most this many entries is prefetched if it fits into SMALL_BYTES_MAX."""

SMALL_BYTES_MAX = MIB


class PageColumns(Protocol):
    """Converts a page of entries to rows."""

    def batch(self, page: Columns) -> pa.RecordBatch: ...


class RangeToRead(Protocol):
    """Entries of one ledger for a task to read."""

    @property
    def entries(self) -> LedgerRange: ...

    async def open(self, client: LedgerClient, password: bytes) -> tuple[ReadHandle, PageColumns]:
        """Opens the ledger; returns its reader and the object that builds columns from its pages."""
        ...


@dataclass(frozen=True, slots=True)
class _OfLedger:
    """Entries of a closed ledger, read as they are."""

    entries: LedgerRange
    names: Sequence[str]

    async def open(self, client: LedgerClient, password: bytes) -> tuple[ReadHandle, PageColumns]:
        reader = await open_closed(client, self.entries.ledger_id, password)
        return reader, EntryColumns(reader.record, self.names)


def record_batches(
    access: ExecutorAccess, ranges: Sequence[LedgerRange], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields every entry in the ranges of closed ledgers; see `read_ranges`."""
    return read_ranges(access, [_OfLedger(one, names) for one in ranges])


def read_ranges(access: ExecutorAccess, ranges: Sequence[RangeToRead]) -> Iterator[pa.RecordBatch]:
    """Yields every row in the ranges once, in order. Digests are verified.

    Raises LedgerError if a ledger was deleted or is not closed, and EntryUnreadable or DigestMismatch, which name the
    entry and each replica's answer. Nothing is skipped.
    """
    pages = read_with_client(access, lambda client: _batches(client, access.password, ranges))
    return joined(batch for page in pages for batch in page)


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches so that each has at least BATCH_BYTES_MIN (except the last one), and drops empty batches. The rows
    and their order stay the same."""
    kept: list[pa.RecordBatch] = []
    kept_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        kept.append(batch)
        kept_bytes += batch.nbytes
        if kept_bytes >= BATCH_BYTES_MIN:
            yield _as_one(kept)
            kept, kept_bytes = [], 0
    if kept:
        yield _as_one(kept)


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


async def _batches(
    client: LedgerClient, password: bytes, ranges: Sequence[RangeToRead]
) -> AsyncGenerator[list[pa.RecordBatch], None]:
    """Prefetches small ranges, a bounded number at a time; yields large ones page by page."""
    ahead: deque[asyncio.Task[_Opened]] = deque()
    waiting = deque(ranges)
    try:
        while waiting or ahead:
            while waiting and len(ahead) < RANGES_AHEAD_MAX:
                ahead.append(asyncio.create_task(_open(client, password, waiting.popleft())))
            opened = await ahead.popleft()
            if opened.whole is not None:
                yield opened.whole
                continue
            async with aclosing(opened.pages()) as pages:
                async for batch in pages:
                    yield [batch]
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


class _Opened:
    """A range of an opened ledger. `whole` is set if the range was small enough to be read all at once."""

    def __init__(self, wanted: LedgerRange, reader: ReadHandle, columns: PageColumns) -> None:
        self.whole: list[pa.RecordBatch] | None = None
        self._wanted = wanted
        self._reader = reader
        self._columns = columns

    @property
    def is_small(self) -> bool:
        entries = self._wanted.last_entry - self._wanted.first_entry + 1
        return entries <= SMALL_ENTRIES_MAX and (self._reader.length_bytes or 0) <= SMALL_BYTES_MAX

    async def pages(self) -> AsyncGenerator[pa.RecordBatch, None]:
        wanted = self._wanted
        pages = self._reader.pages(wanted.first_entry, wanted.last_entry)
        with planned(wanted.ledger_id):
            async with aclosing(pages):
                async for page in pages:
                    yield self._columns.batch(page)


async def _open(client: LedgerClient, password: bytes, wanted: RangeToRead) -> _Opened:
    opened = _Opened(wanted.entries, *await wanted.open(client, password))
    if opened.is_small:
        opened.whole = [batch async for batch in opened.pages()]
    return opened
