"""One bookie that heals, over real storage, and the rest of its cluster as the metadata has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.healing.local_check import LocalCheck
from bookie.upkeep.healing.rebalancer import Rebalancer
from bookie.upkeep.healing.replication_worker import ReplicationWorker
from bookie.upkeep.inventory.inventory import Inventory
from bookie.upkeep_config import UpkeepConfig
from metadata import keys
from metadata.healing import operator_requests
from metadata.healing.marks import Marks
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryStore
from metadata.rate_limit import RateLimit
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef, Ensemble, Fragment, LedgerRecord, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from tests.bookie.upkeep.replicas import (
    AT_ONCE,
    BK1,
    BK2,
    BK3,
    ME,
    DictionaryPeers,
    Mended,
    closed_ledger,
    mended,
)
from tests.support.present import there

SHAPE = Shape(3, 3, 2)
LAST = 99
CONFIG = UpkeepConfig(lost_bookie_seconds=600, open_ledger_grace_seconds=0)
LOST_MS = CONFIG.lost_bookie_ms
NOW = 1_000_000.0
"""Seconds; the wall clock of a test stands still unless it is moved."""


@dataclass
class Healing:
    """One bookie, its worker and its auditor, and the rest of the cluster as the metadata has it."""

    world: Mended
    store: MemoryStore
    peers: DictionaryPeers
    now: float = NOW

    def __post_init__(self) -> None:
        clock = lambda: self.now  # noqa: E731
        self.ledgers, self.marks = LedgerStore(self.store), Marks(self.store)
        inventory = Inventory(self.world.bookie, RateLimit(AT_ONCE))
        self.worker = ReplicationWorker(
            self.store, ME, self.world.repair, self.peers, self.world.upkeep, inventory, CONFIG, clock
        )
        self.auditor = Auditor(self.store, ME, CONFIG, clock, self.peers)
        self.stock = LocalCheck(
            self.world.bookie, self.store, ME, inventory, self.world.upkeep, CONFIG, clock
        )
        self.rebalancer = Rebalancer(self.store, ME, self.worker.healer, self.world.upkeep, CONFIG)

    def passes(self, seconds: float) -> None:
        """So much more time has passed for all that runs on this event loop."""
        loop = asyncio.get_running_loop()
        before = loop.time
        loop.time = lambda: before() + seconds  # type: ignore[method-assign]

    async def record(self, ledger_id: int) -> LedgerRecord:
        found = there(await self.ledgers.read(ledger_id))
        return found.record

    async def ensemble(self, ledger_id: int) -> Ensemble:
        """Of its first fragment."""
        return (await self.record(ledger_id)).fragments[0].ensemble

    async def joins(self, *bookies: BookieRef, lives: bool = True) -> None:
        for bookie in bookies:
            cookie = Cookie("cluster", bookie.bookie_id, bookie.incarnation)
            await self.store.create(keys.cookie(bookie.bookie_id), cookie.encode())
            if lives:
                await self.registers(Registration(bookie, f"{bookie}:1"))

    async def registers(self, registration: Registration) -> None:
        await self.store.create(registration.key, registration.encode())

    async def dies(self, bookie: BookieRef) -> None:
        found = there(await self.store.get(keys.bookie(bookie.bookie_id)))
        await self.store.delete(found.key, found.version)

    async def is_lost(self, *bookies: BookieRef) -> None:
        """They are dead and given up, and the auditor has seen that."""
        for bookie in bookies:
            await self.dies(bookie)
            await self.given_up(bookie)
        await self.auditor.look_once()

    async def given_up(self, bookie: BookieRef) -> None:
        await operator_requests.give(self.store, Order(bookie.bookie_id, OrderKind.GIVEN_UP, 0))

    async def loses_b2(self) -> None:
        """Ledger 7 is closed on b1, b2 and b3."""
        await closed_ledger(self.ledgers, 7, SHAPE, LAST, Fragment(0, (BK1, BK2, BK3)))
        await self.is_lost(BK2)


@asynccontextmanager
async def healing(tmp_path: Path) -> AsyncIterator[Healing]:
    """ME, b1, b2 and b3 live."""
    store = MemoryStore()
    ledgers = LedgerStore(store)
    peers = DictionaryPeers(ledgers)
    async with mended(tmp_path, ledgers, peers=peers) as world:
        one = Healing(world, store, peers)
        await one.joins(ME, BK1, BK2, BK3)
        yield one
