"""Peers of real bookies that remember whom they asked, and ledgers for them to read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bookie.upkeep.repair_client import Peers
from bookie.wire import ReadReply, ReadRequest
from bookie.wire.credentials import BookieKey
from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.store import MetadataStore
from tests.support.in_process import QUICK


class WatchedBookies(ConnectedBookies):
    """Remembers who was asked, and where connections led."""

    def __init__(self, store: MetadataStore, config: ClientConfig) -> None:
        super().__init__(store, config)
        self.asked: set[BookieRef] = set()
        self.addresses: set[str] = set()

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        self.asked.add(bookie)
        return await super().read(bookie, request)

    async def _address(self, bookie: BookieRef) -> str:
        """Of each connection that is made."""
        self.addresses.add(await super()._address(bookie))
        return await super()._address(bookie)


class Watched:
    """Peers, and the bookies that they asked."""

    def __init__(
        self, store: MetadataStore, config: ClientConfig = QUICK, key: BookieKey | None = None
    ) -> None:
        self.bookies = WatchedBookies(store, config)
        self.peers = ClusterPeers(store, config, key=key, bookies=lambda _, __: self.bookies)


@asynccontextmanager
async def watched(store: MetadataStore, key: BookieKey | None = None) -> AsyncIterator[Watched]:
    made = Watched(store, key=key)
    try:
        yield made
    finally:
        await made.peers.close()


def payload(n: int) -> bytes:
    return b"entry %d of this ledger " % n * 10


async def written(client: LedgerClient, shape: tuple[int, int, int], count: int) -> WriteHandle:
    """A closed ledger, a hundred entries a frame."""
    e, w, a = shape
    async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
        for n in range(count):
            await writer.append_async(payload(n))
            if n % 100 == 99:
                await writer.flush()
    return writer


async def payloads(peers: Peers, record: LedgerRecord, without: BookieRef, first: int = 0) -> list[bytes]:
    assert record.last_entry is not None
    return [
        bytes(one)
        async for page in peers.entries(record, first, record.last_entry, without=without)
        for _, one, _ in page.rows()
    ]
