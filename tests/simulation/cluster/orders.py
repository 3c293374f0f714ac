"""What operators order of a whole cluster; each tries again until the store has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from metadata.errors import MetadataError
from metadata.healing import operator_requests, planned_moves
from metadata.healing.operator_requests import Order, OrderKind
from metadata.healing.planned_moves import Move, Moves
from metadata.records.cluster import list_bookies
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.store import MetadataStore
from tests.simulation.shells.metadata import VirtualStore

from .host import Host
from .hosts import OPERATOR
from .site import ClusterSite

AGAIN_SECONDS = 1.0


async def drain(site: ClusterSite, host: Host, seconds: float) -> None:
    """It is taken back after a while."""
    name = host.machine.directory.name
    await _ordered(site, lambda store: operator_requests.give(store, Order(name, OrderKind.DRAIN, 0)))
    await asyncio.sleep(seconds)
    await _ordered(site, lambda store: operator_requests.take_back(store, name))


async def late_orders_are_taken_back(site: ClusterSite) -> bool:
    """Whether one stood: a call that its caller gave up can land after the order was taken back."""
    stood = False

    async def look(store: MetadataStore) -> None:
        nonlocal stood
        for order in await operator_requests.list_orders(store):
            stood = True
            await operator_requests.take_back(store, order.bookie_id)

    await _ordered(site, look)
    return stood


async def move(site: ClusterSite, nth: int) -> None:
    """A wish for every fragment that is over."""

    async def wish(store: MetadataStore) -> None:
        living = [one.bookie for one in await list_bookies(store)]
        async for found in LedgerStore(store).list():
            part = found.record.closed_part()
            if part is not None and (wished := _moves_of(part, living, nth)):
                await planned_moves.plan(store, Moves(part.ledger_id, wished))

    await _ordered(site, wish)


def _moves_of(part: LedgerRecord, living: Sequence[BookieRef], nth: int) -> tuple[Move, ...]:
    found = []
    for fragment in part.fragments:
        free = [one for one in living if one not in fragment.ensemble]
        if free and fragment.ensemble:
            old = fragment.ensemble[nth % len(fragment.ensemble)]
            found.append(Move(fragment.first_entry, old, free[nth % len(free)]))
    return tuple(found)


async def _ordered(site: ClusterSite, order: Callable[[MetadataStore], Awaitable[object]]) -> None:
    while True:
        store = VirtualStore(site.metadata, OPERATOR)
        try:
            await order(store)
            return
        except MetadataError as error:
            site.world.note("an order comes to nothing: %r", error)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await store.close()
