"""Uploads a ledger's entries as objects, and reads the objects back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TypeVar

from bookie.wire import Columns
from metadata.rate_limit import RateLimit
from metadata.records.cold.cold_copy import ColdCopy
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.cold_index import ColdIndex

from ..cold.cold_reader import fetch_index
from ..cold.errors import BadObject
from ..cold.layout import BLOCK_BYTES, MAGIC, Pieces, add_block, decode_block, encode_block, end_of
from ..cold.object_store import Objects
from ..integrity.digest import Digester
from ..reading.ledger_view import LedgerView
from ..reading.page_fetch import PageFetcher
from ..reading.range_read import RangeRead
from ..tasks import end_tasks

T = TypeVar("T")

PART_BYTES_MAX = 4 * 1024**3
"""Once an object has this size, no further block is added to it. A larger ledger becomes several objects."""


async def upload(
    view: LedgerView,
    objects: Objects,
    record: LedgerRecord,
    copy: ColdCopy,
    part_bytes_max: int,
    pace: RateLimit | None = None,
) -> list[ColdIndex]:
    """Writes all entries of a closed ledger to the objects of a copy, and returns the index of each object.

    Raises EntryUnreadable or DigestMismatch for entries on bookies, or ObjectStoreFailed.
    """
    indexes: list[ColdIndex] = []
    assert record.last_entry is not None
    source = RangeRead(view, PageFetcher(view)).columns(0, record.last_entry)
    async with aclosing(source) as pages, aclosing(_one_ahead(_encoded(pages))) as blocks:
        encoded = await anext(blocks, None)
        while encoded is not None:
            index = ColdIndex(record, len(indexes), encoded[0][0].digest_width)
            async with objects.writing(copy.name_of(index.part)) as file:
                await file.write(MAGIC)
                while encoded is not None and (not index.crcs or index.offsets[-1] < part_bytes_max):
                    entries, stored, is_compressed = encoded
                    add_block(index, entries, stored, is_compressed=is_compressed)
                    for piece in stored:
                        if pace is not None:
                            await pace.keep(len(piece))
                        await file.write(piece)
                    encoded = await anext(blocks, None)
                await file.write(end_of(index))
            indexes.append(index)
    return indexes


async def _one_ahead(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yields the items of `source`, and prepares the next item while the caller uses the current one."""

    async def following() -> T | None:
        return await anext(source, None)

    coming = asyncio.create_task(following())
    try:
        while (item := await coming) is not None:
            coming = asyncio.create_task(following())
            yield item
    finally:
        await end_tasks([coming])


async def _encoded(
    pages: AsyncIterator[Columns],
) -> AsyncIterator[tuple[list[Columns], Pieces, bool]]:
    async for entries in _blocks(pages):
        yield entries, *await asyncio.to_thread(encode_block, entries)


async def _blocks(pages: AsyncIterator[Columns]) -> AsyncIterator[list[Columns]]:
    """Yields the pages of each block as one list."""
    waiting: list[Columns] = []
    size = 0
    async for page in pages:
        waiting.append(page)
        size += page.size_bytes
        if size >= BLOCK_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


async def check_uploaded(
    objects: Objects, copy: ColdCopy, indexes: Sequence[ColdIndex], digester: Digester
) -> int:
    """Reads back and verifies everything that was uploaded; returns its size in bytes. Raises BadObject,
    ObjectStoreFailed."""
    size = 0
    for index in indexes:
        name = copy.name_of(index.part)
        if end_of(await fetch_index(objects, name)) != end_of(index):
            raise BadObject(f"the index of {name} is not the one that was uploaded")
        await _check_blocks(objects, name, index, digester)
        size += await objects.size(name)
    return size


async def _check_blocks(objects: Objects, name: str, index: ColdIndex, digester: Digester) -> None:
    async with aclosing(_one_ahead(_fetched(objects, name, index))) as blocks:
        async for number, stored in blocks:
            if await asyncio.to_thread(_is_wrong, index, number, stored, digester):
                raise BadObject(f"block {number} of {name} has entries with wrong digests")


async def _fetched(objects: Objects, name: str, index: ColdIndex) -> AsyncIterator[tuple[int, memoryview]]:
    for number in range(len(index)):
        yield number, await objects.read(name, *index.offsets[number : number + 2])


def _is_wrong(index: ColdIndex, number: int, stored: memoryview, digester: Digester) -> bool:
    return bool(digester.bad_entries(decode_block(index, number, stored)))
