"""Peers over bookies that live in a dictionary, and what tests ask of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bookie.upkeep.repair_client import Peers
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from tests.ledgers.reading.reading import BK0, DictionaryBookies


def peers_on(
    bookies: DictionaryBookies, store: MemoryStore | None = None, config: ClientConfig | None = None
) -> ClusterPeers:
    return ClusterPeers(store or MemoryStore(), config, bookies=lambda _, __: bookies)


async def peers_knowing(record: LedgerRecord, bookies: DictionaryBookies) -> ClusterPeers:
    """With the ledger's record in the metadata, which is looked at once more when nobody has an entry."""
    store = MemoryStore()
    await LedgerStore(store).create(record)
    return peers_on(bookies, store)


async def given(
    peers: Peers, record: LedgerRecord, without: BookieRef = BK0, first: int = 0, last: int | None = None
) -> list[int]:
    """Ids of the entries, in the order they come."""
    end = record.last_entry if last is None else last
    assert end is not None
    return [n async for page in peers.entries(record, first, end, without=without) for n in page.ids]


def asked(bookies: DictionaryBookies) -> set[BookieRef]:
    return {bookie for bookie, _ in bookies.asked}


def failing(why: str, *bookies: BookieRef) -> Callable[[BookieRef], Awaitable[None]]:
    async def before_answer(bookie: BookieRef) -> None:
        if bookie in bookies:
            raise BookieUnavailable(str(bookie), why)

    return before_answer


def silent(*bookies: BookieRef) -> Callable[[BookieRef], Awaitable[None]]:
    async def before_answer(bookie: BookieRef) -> None:
        if bookie in bookies:
            await asyncio.Event().wait()

    return before_answer


async def until_others_wait() -> None:
    """Returns when every read ahead has come: dictionaries answer within a few turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)
