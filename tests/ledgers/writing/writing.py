"""A writer whose lanes a test holds in its hands: what is sent is kept, and answers come when the test gives them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from bookie.wire import (
    Columns,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
)
from ledgers.bookie_client import LaneListener, LaneTerms
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.writing.write_handle import WriteHandle
from metadata.memory import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore

LEDGER_ID = 7
DIGEST = Crc32cDigester(LEDGER_ID)
ENSEMBLE = tuple(BookieRef(f"b{n}", "i") for n in range(3))
TURNS = 20


@dataclass
class HeldLane:
    """Keeps what is sent on it."""

    listener: LaneListener
    last_add_confirmed: Callable[[], LacStatement | None]
    sent: list[Columns] = field(default_factory=list)
    forces: int = 0
    backlog_bytes: int = 0
    is_closed: bool = False

    def send(self, columns: Columns) -> None:
        self.sent.append(columns)
        self.backlog_bytes += columns.size_bytes

    def send_lac(self) -> None:
        """Nobody waits for it."""

    def force(self) -> None:
        self.forces += 1

    def close(self) -> None:
        self.is_closed = True

    def acknowledge(self) -> None:
        """All that was sent is on the bookie's disk."""
        self.backlog_bytes = 0
        self.listener.acked(self.sent[-1].last_entry)


class HeldBookies:
    """Lanes in the order in which they were opened. Asked anything else, the bookies are silent."""

    def __init__(self) -> None:
        self.lanes: list[HeldLane] = []

    def open_lane(
        self,
        bookie: BookieRef,
        terms: LaneTerms,
        listener: LaneListener,
        last_add_confirmed: Callable[[], LacStatement | None],
    ) -> HeldLane:
        self.lanes.append(HeldLane(listener, last_add_confirmed))
        return self.lanes[-1]

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        raise NotImplementedError

    def scan(self, bookie: BookieRef, request: ScanRequest) -> AsyncGenerator[ReadReply, None]:
        raise NotImplementedError

    async def last_add_confirmed(self, bookie: BookieRef, request: LacRequest) -> LacReply:
        raise NotImplementedError

    def tell_note(self, bookie: BookieRef, terms: LaneTerms, note: bytes) -> None:
        raise NotImplementedError

    def heard_at(self, bookie: BookieRef) -> float:
        del bookie
        return -math.inf

    async def info(self, bookie: BookieRef) -> InfoReply:
        raise BookieUnavailable(str(bookie), "silent")

    async def close(self) -> None:
        """Nothing to end."""

    def acknowledge(self, *positions: int) -> None:
        for n in positions:
            self.lanes[n].acknowledge()

    def fail(self, *positions: int) -> None:
        for n in positions:
            self.lanes[n].listener.failed("gone")

    def fence(self) -> None:
        """Another client recovers the ledger."""
        self.lanes[0].listener.refused(Status.FENCED, "")


async def writer_of(
    bookies: HeldBookies, config: ClientConfig | None = None, *, deferred_sync: bool = False
) -> tuple[WriteHandle, LedgerStore]:
    """A writer on three bookies, two of which confirm, and the store with its ledger's record."""
    store = MemoryStore()
    ledgers = LedgerStore(store)
    cluster = Cluster(store, ledgers, bookies, config or ClientConfig())
    created = await ledgers.create(LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),)))
    key = LedgerKey(LEDGER_ID, b"")
    return WriteHandle(cluster, created, DIGEST, key, deferred_sync=deferred_sync), ledgers


async def turns() -> None:
    """The loop has done whatever was to be done at once."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
