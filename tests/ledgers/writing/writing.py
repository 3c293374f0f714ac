"""A writer whose lanes a test holds in its hands: what is sent is kept, and answers come when the test gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bookie.wire import (
    Columns,
    InfoReply,
    LacStatement,
    Status,
)
from ledgers.bookie_client import LaneListener, LaneTerms
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.writing.write_handle import WriteHandle
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from tests.ledgers.reading.reading import BK0, BK1, BK2, DIGEST, KEY, LEDGER_ID, DictionaryBookies

ENSEMBLE = (BK0, BK1, BK2)
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


class HeldBookies(DictionaryBookies):
    """Lanes in the order in which they were opened. Nobody hears of the bookies, and they hold no entry."""

    def __init__(self) -> None:
        super().__init__([])
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

    async def info(self, bookie: BookieRef) -> InfoReply:
        raise BookieUnavailable(str(bookie), "silent")

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
    config: ClientConfig | None = None, *, deferred_sync: bool = False
) -> tuple[WriteHandle, HeldBookies, LedgerStore]:
    """A writer on three bookies, two of which confirm, and the store with its ledger's record."""
    bookies, store = HeldBookies(), MemoryStore()
    ledgers = LedgerStore(store)
    cluster = Cluster(store, ledgers, bookies, config or ClientConfig())
    created = await ledgers.create(LedgerRecord(LEDGER_ID, Shape(3, 3, 2), (Fragment(0, ENSEMBLE),)))
    return WriteHandle(cluster, created, DIGEST, KEY, deferred_sync=deferred_sync), bookies, ledgers


async def turns() -> None:
    """The loop has done whatever was to be done at once."""
    for _ in range(TURNS):
        await asyncio.sleep(0)
