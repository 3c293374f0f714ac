"""Bookies that say how they are, and a cluster of those that are registered."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence

from bookie.wire import InfoReply
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.cluster import Cluster
from ledgers.config import ClientConfig
from ledgers.errors import BookieStarting, BookieUnavailable
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import MetadataStore

HUNG_SECONDS = 60.0


class Answering(ConnectedBookies):
    """Only these bookies answer; some say that they are read-only."""

    def __init__(
        self, alive: Sequence[BookieRef], read_only: Sequence[BookieRef] = (), hung: Sequence[BookieRef] = ()
    ) -> None:
        super().__init__(MemoryStore(), ClientConfig())
        self._alive = alive
        self._read_only = read_only
        self._hung = hung
        self.starting: set[BookieRef] = set()
        self.heard: set[BookieRef] = set()
        self.asked: list[BookieRef] = []

    def heard_at(self, bookie: BookieRef) -> float:
        return asyncio.get_running_loop().time() if bookie in self.heard else -math.inf

    async def info(self, bookie: BookieRef) -> InfoReply:
        self.asked.append(bookie)
        if bookie in self.starting:
            raise BookieStarting(str(bookie), "it reads its log")
        if bookie in self._hung:
            await asyncio.sleep(HUNG_SECONDS)
            raise BookieUnavailable(str(bookie), "deadline exceeded")
        if bookie not in self._alive:
            raise BookieUnavailable(str(bookie), "silent")
        return InfoReply(
            bookie.bookie_id, bookie.incarnation, "c", "1", 1, 1, 0, 0, 0, bookie in self._read_only
        )


async def registers(
    store: MetadataStore, bookie: BookieRef, domain: str = "", *, writable: bool = True
) -> Registration:
    registration = Registration(bookie, f"{bookie.bookie_id}:3181", domain, writable)
    await store.create(registration.key, registration.encode())
    return registration


async def cluster_on(
    bookies: Answering,
    domains: Mapping[BookieRef, str],
    config: ClientConfig | None = None,
    *,
    store: MemoryStore | None = None,
    seed: int = 1,
) -> Cluster:
    """A client's view of these bookies: those of `domains` are registered, each in its fault domain."""
    store = store or MemoryStore()
    for bookie, domain in domains.items():
        await registers(store, bookie, domain)
    return Cluster(store, LedgerStore(store), bookies, config or ClientConfig(), random.Random(seed))
