"""A reader on bookies that live in a dictionary: what is asked, held and left running can be counted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from bookie.wire import (
    NO_ENTRIES,
    NO_ENTRY,
    Columns,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
    merge,
    of_payloads,
)
from ledgers.bookie_client import CannotScan, Lane, LaneListener, LaneTerms
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.reading.read_handle import ReadHandle
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from tests.support.ledgers import change

LEDGER_ID = 7
DIGEST = Crc32cDigester(LEDGER_ID)
KEY = LedgerKey(LEDGER_ID, b"")
PAGE_BYTES_MAX = 4 * 1024 * 1024
BK0, BK1, BK2, BK3 = (BookieRef(f"b{n}", "i") for n in range(4))


def columns_of(entry_id: int, size_bytes: int) -> Columns:
    payload = entry_id.to_bytes(8, "little") * (size_bytes // 8 + 1)
    payload = payload[:size_bytes]
    return of_payloads(entry_id, [payload], DIGEST.sign(entry_id, [payload]))


@dataclass
class DictionaryBookies:
    """Every bookie holds every entry that `lacking` does not name for it. Pages are cut as a bookie cuts them.

    Those in `scanning` know scans; the others are asked page by page.
    """

    sizes: Sequence[int]
    lacking: dict[BookieRef, set[int]] = field(default_factory=dict)
    scanning: frozenset[BookieRef] = frozenset()
    scanned: list[tuple[BookieRef, ScanRequest]] = field(default_factory=list)
    before_answer: Callable[[BookieRef], Awaitable[None]] | None = None
    asked: list[tuple[BookieRef, ReadRequest]] = field(default_factory=list)
    heard: float = -math.inf
    under_way: int = 0
    under_way_most: int = 0
    given_bytes: int = 0
    given_entries: int = 0

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        self.asked.append((bookie, request))
        self.under_way += 1
        self.under_way_most = max(self.under_way_most, self.under_way)
        try:
            await asyncio.sleep(0)
            if self.before_answer is not None:
                await self.before_answer(bookie)
        finally:
            self.under_way -= 1
        reply = self._page(bookie, request)
        self.given_bytes += reply.columns.size_bytes
        self.given_entries += len(reply.columns)
        return reply

    async def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        if bookie not in self.scanning:
            raise CannotScan(str(bookie), "it knows no scans")
        self.scanned.append((bookie, request))
        next_entry = request.first_entry
        while True:
            if self.before_answer is not None:
                await self.before_answer(bookie)
            reply = self._page(bookie, request.page_from(next_entry))
            self.given_bytes += reply.columns.size_bytes
            self.given_entries += len(reply.columns)
            yield reply
            if request.ends(reply):
                return
            next_entry = reply.covered_through + 1

    def _page(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        parts: list[Columns] = []
        taken, entry_id = 0, request.first_entry
        last_entry = min(request.last_entry, len(self.sizes) - 1)
        while entry_id <= last_entry and taken < request.bytes_max:
            if entry_id not in self.lacking.get(bookie, ()):
                part = columns_of(entry_id, self.sizes[entry_id])
                if parts and taken + part.size_bytes > PAGE_BYTES_MAX:
                    break
                parts.append(part)
                taken += part.size_bytes
            entry_id += 1
        covered = request.last_entry if entry_id >= len(self.sizes) else entry_id - 1
        return ReadReply(Status.OK, merge(parts) if parts else NO_ENTRIES, covered)

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        raise NotImplementedError

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> Lane:
        raise NotImplementedError

    def send_note(self, bookie: BookieRef, terms: LaneTerms, note: bytes) -> None:
        raise NotImplementedError

    def heard_at(self, bookie: BookieRef) -> float:
        del bookie
        return self.heard

    async def info(self, bookie: BookieRef) -> InfoReply:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to end."""


def record_of(
    bookies: DictionaryBookies, *fragments: Fragment, shape: Shape | None = None, closed: bool = True
) -> LedgerRecord:
    fragments = fragments or (Fragment(0, (BK0, BK1, BK2)),)
    size = len(fragments[0].ensemble)
    record = LedgerRecord(LEDGER_ID, shape or Shape(size, size, size), fragments)
    return record.closed(len(bookies.sizes) - 1, sum(bookies.sizes)) if closed else record


async def reader_of(
    bookies: DictionaryBookies, record: LedgerRecord | None = None, config: ClientConfig | None = None
) -> tuple[ReadHandle, LedgerStore]:
    """A reader, and the store with its ledger's record. Everything is confirmed."""
    store = MemoryStore()
    ledgers = LedgerStore(store)
    cluster = Cluster(store, ledgers, bookies, config or ClientConfig())
    made = await ledgers.create(record or record_of(bookies))
    reader = ReadHandle(cluster, made, DIGEST, KEY)
    if not reader.is_closed:
        last = len(bookies.sizes) - 1 if bookies.sizes else NO_ENTRY
        reader._view.note_lac(last)
    return reader, ledgers


async def with_fragments(ledgers: LedgerStore, *fragments: Fragment) -> VersionedRecord:
    """Another client changes the ledger's ensembles."""
    return await change(ledgers, LEDGER_ID, lambda record: replace(record, fragments=fragments))


async def until_idle() -> None:
    """Returns when no other task of this loop runs."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)
