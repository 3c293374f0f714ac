"""Reads a ledger's entries from its copy in an object store, a block at a time, a few blocks ahead (rule O4)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from bookie.wire import Columns, Holding
from metadata.records.cold.cold_copy import ColdCopy
from metadata.records.ledger_record import LedgerRecord
from metadata.records.notes.cold_index import ColdIndex

from ..errors import DigestMismatch, EntryUnreadable
from ..integrity.digest import Digester
from ..tasks import end_tasks
from .errors import BadObject, ObjectStoreFailed
from .layout import FOOTER_BYTES, decode_block, index_bounds, read_index
from .object_store import Objects, ObjectStores

END_BYTES = 64 * 1024
"""Number of bytes at the end of an object that are read first. They usually include the footer and the index."""

BLOCKS_AHEAD = 4
"""Number of blocks that are fetched ahead of the block in use."""

CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Size limit of a client's block cache, which holds blocks of all ledgers that the client reads from object stores. The
block in use does not count."""

INDEXES_MAX = 1000
"""Maximum number of indexes that a client caches."""


@dataclass(slots=True)
class ColdCache:
    """A client's object stores, its cached indexes, and its least-recently-used cache of blocks."""

    stores: ObjectStores = field(default_factory=lambda: ObjectStores({}))
    indexes: OrderedDict[str, ColdIndex] = field(default_factory=OrderedDict)
    blocks: OrderedDict[tuple[str, int], Columns] = field(default_factory=OrderedDict)
    size_bytes: int = 0

    def block(self, name: str, number: int) -> Columns | None:
        found = self.blocks.get((name, number))
        if found is not None:
            self.blocks.move_to_end((name, number))
        return found

    def keep(self, name: str, number: int, block: Columns) -> None:
        if self.blocks.setdefault((name, number), block) is block:
            self.size_bytes += block.size_bytes
        while self.size_bytes > CACHE_BYTES_MAX:
            self.size_bytes -= self.blocks.popitem(last=False)[1].size_bytes

    def keep_index(self, name: str, index: ColdIndex) -> None:
        self.indexes[name] = index
        while len(self.indexes) > INDEXES_MAX:
            self.indexes.popitem(last=False)


class ColdReader:
    """Reads one complete copy of a ledger. Verifies every entry as if it came from a bookie."""

    def __init__(self, cache: ColdCache, record: LedgerRecord, digester: Digester) -> None:
        assert record.cold is not None and record.last_entry is not None
        self._cache = cache
        self._ledger_id = record.ledger_id
        self._identity = record.identity
        self._copy: ColdCopy = record.cold
        self._end = record.last_entry + 1
        self._digester = digester

    async def pages(self, first_entry: int, last_entry: int) -> AsyncGenerator[Columns, None]:
        """Yields the entries of the range in order, in blocks that are never empty.

        If an entry cannot be read, yields all entries before it, then raises EntryUnreadable or DigestMismatch.
        """
        ahead: deque[tuple[int, asyncio.Task[Columns]]] = deque()
        next_entry = coming = first_entry
        may_go_ahead = True
        try:
            while next_entry <= last_entry:
                while coming <= last_entry and (not ahead or (may_go_ahead and len(ahead) <= BLOCKS_AHEAD)):
                    try:
                        stop = await self._end_of_block(coming)
                    except EntryUnreadable:
                        if not ahead:
                            raise
                        may_go_ahead = False  # yield the earlier blocks first; retry when this one is due
                        break
                    ahead.append((coming, asyncio.create_task(self._block(coming))))
                    coming, may_go_ahead = stop, True
                begins, block = ahead.popleft()
                found = (await block).between(begins, last_entry)
                page = await asyncio.to_thread(self._verified, found, begins)
                next_entry = page.last_entry + 1
                yield page
                if next_entry != min(last_entry + 1, ahead[0][0] if ahead else coming):
                    # An entry of this block is invalid: the next iteration begins with it, and raises the error.
                    coming = next_entry
                    await end_tasks([task for _, task in ahead])
                    ahead.clear()
        finally:
            await end_tasks([task for _, task in ahead])

    async def page(self, first_entry: int, last_entry: int, bytes_max: int) -> Columns:
        """Returns verified entries, starting with `first_entry`: at least one, and about `bytes_max` bytes in total.
        Raises the errors of `pages`."""
        block = await self._block(first_entry)
        return self._verified(block.between(first_entry, last_entry).start_of(bytes_max), first_entry)

    async def blocks(self) -> list[Holding]:
        """Returns the range of entries and the stored size of every block. Raises EntryUnreadable."""
        found: list[Holding] = []
        for part, first_entry in enumerate(self._copy.part_starts):
            with self._translate_errors(first_entry):
                index = await self._index(part)
            starts = pairwise(index.first_entries)
            sizes = (stop - start for start, stop in pairwise(index.offsets))
            found += [
                Holding(first, stop - 1, stop - first, size)
                for (first, stop), size in zip(starts, sizes, strict=True)
            ]
        return found

    def _verified(self, columns: Columns, first_entry: int) -> Columns:
        wrong = self._digester.bad_entries(columns) if len(columns) else [0]
        if columns.digest_width != self._digester.width_bytes or wrong[:1] == [0]:
            raise DigestMismatch(self._ledger_id, first_entry, {self._name(first_entry): "wrong digest"})
        return columns.cut(0, wrong[0]) if wrong else columns

    async def _block(self, entry_id: int) -> Columns:
        part = self._copy.part_of(entry_id)
        name = self._name(entry_id)
        with self._translate_errors(entry_id):
            index = await self._index(part)
            number = index.block_of(entry_id)
            found = self._cache.block(name, number)
            if found is None:
                start, stop = index.offsets[number : number + 2]
                stored = await self._objects.read(self._copy.name_of(part), start, stop)
                found = await asyncio.to_thread(decode_block, index, number, stored)
                self._cache.keep(name, number, found)
        return found

    async def _end_of_block(self, entry_id: int) -> int:
        """Returns the entry id after the last entry of the block that contains this entry."""
        with self._translate_errors(entry_id):
            index = await self._index(self._copy.part_of(entry_id))
        return index.first_entries[index.block_of(entry_id) + 1]

    @contextmanager
    def _translate_errors(self, entry_id: int) -> Iterator[None]:
        try:
            yield
        except ObjectStoreFailed as error:
            raise EntryUnreadable(self._ledger_id, entry_id, {error.name: error.why}) from error
        except BadObject as error:
            raise EntryUnreadable(self._ledger_id, entry_id, {self._name(entry_id): str(error)}) from error

    async def _index(self, part: int) -> ColdIndex:
        name = f"{self._copy.url}/{self._copy.name_of(part)}"
        index = self._cache.indexes.get(name)
        if index is None:
            index = await fetch_index(self._objects, self._copy.name_of(part))
            self._check(index, part)
            self._cache.keep_index(name, index)
        return index

    def _check(self, index: ColdIndex, part: int) -> None:
        starts = (*self._copy.part_starts, self._end)
        span = index.first_entries[0], index.first_entries[-1]
        its = index.ledger.ledger_id, index.ledger.identity, index.part, span
        if its != (self._ledger_id, self._identity, part, (starts[part], starts[part + 1])):
            raise BadObject("it belongs to another ledger, or to another part of this ledger")

    def _name(self, entry_id: int) -> str:
        return f"{self._copy.url}/{self._copy.name_of(self._copy.part_of(entry_id))}"

    @property
    def _objects(self) -> Objects:
        return self._cache.stores.at(self._copy.url)


async def fetch_index(objects: Objects, name: str) -> ColdIndex:
    """Reads the index of an object, usually with one request. Raises ObjectStoreFailed, BadObject."""
    end, size = await objects.read_end(name, END_BYTES)
    start, stop, crc = index_bounds(end[-FOOTER_BYTES:], size)
    behind = size - len(end)
    data = end[start - behind : stop - behind] if start >= behind else await objects.read(name, start, stop)
    return await asyncio.to_thread(read_index, data, crc)
