"""What bookies ask of the metadata while nothing happens, by their number; and how the loss of one is shared.

The product's own bookies in one process, over one store in memory, with real sockets, disks and leases.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bookie.config import BookieConfig
from bookie.serving import directory
from bookie.serving.daemon import RunningBookie, serving
from ledgers import ClientConfig
from ledgers.config import PLAIN_TEXT
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata import keys
from metadata.healing import lease_lock, operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records.ledger_ids import take_ledger_ids
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, LedgerState, Shape
from metadata.records.ledger_store import LedgerStore
from metadata.store import Lease, Page, Versioned, WatchEvent
from metadata.version import Version

BOOKIES = (3, 30, 300)
IDLE_SECONDS = 60.0
SETTLE_SECONDS = 30.0
LEDGERS_A_BOOKIE = 30
SEED = 4711


class Counting(MemoryStore):
    """Counts calls, and the bytes of keys and values that they bring or take."""

    def __init__(self, data: MemoryData) -> None:
        super().__init__(data)
        self.calls: Counter[str] = Counter()
        self.bytes = 0

    def _count(self, what: str, size: int) -> None:
        self.calls[what] += 1
        self.bytes += size

    async def get(self, key: str) -> Versioned | None:
        found = await super().get(key)
        self._count("get", len(key) + (0 if found is None else len(found.value)))
        return found

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        page = await super().list_page(prefix, after=after, limit=limit)
        self._count("list", sum(len(one.key) + len(one.value) for one in page.items))
        return page

    async def create(self, key: str, value: bytes, **more: Any) -> Version:
        self._count("write", len(key) + len(value))
        return await super().create(key, value, **more)

    async def replace(self, key: str, value: bytes, version: Version, **more: Any) -> Version:
        self._count("write", len(key) + len(value))
        return await super().replace(key, value, version, **more)

    async def delete(self, key: str, version: Version, **more: Any) -> None:
        self._count("write", len(key))
        await super().delete(key, version, **more)

    async def keep_lease(self, lease: Lease) -> None:
        self._count("lease", 8)
        await super().keep_lease(lease)

    async def watch(
        self, prefix: str, *, after_revision: int | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(prefix, after_revision=after_revision):
            self._count("event", len(event.key) + len(event.value))
            yield event


async def measure(scratch: Path, share: float) -> None:
    for count in BOOKIES:
        directory_ = scratch / str(count)
        directory_.mkdir()
        await _with(directory_, count, share)


async def _with(scratch: Path, count: int, share: float) -> None:
    data = MemoryData()
    stores = [Counting(data) for _ in range(count)]
    async with AsyncExitStack() as stack:
        stacks, running = [], []
        for number, store in enumerate(stores):
            own = await stack.enter_async_context(AsyncExitStack())
            running.append(await own.enter_async_context(await _started(scratch, number, store)))
            stacks.append(own)
        await asyncio.sleep(SETTLE_SECONDS * share)
        await _idle(stores, running, IDLE_SECONDS * share)
        if count > 3:
            await _lose(stores, stacks, running)


async def _started(scratch: Path, number: int, store: Counting) -> Any:
    data = scratch / f"b{number}"
    await directory.format_directory(data, f"b{number}", store)
    small: dict[str, Any] = {"disk_free_bytes_min": 16 << 20, "disk_reserve_bytes": 1 << 20}
    config = BookieConfig(data_directory=data, metadata_uri="memory://scale", port=0, **small)
    return serving(
        config, store, lambda at, key: ClusterPeers(at, ClientConfig(certificates=PLAIN_TEXT), key=key)
    )


async def _idle(stores: list[Counting], running: list[RunningBookie], seconds: float) -> None:
    for store in stores:
        store.calls.clear()
        store.bytes = 0
    await asyncio.sleep(seconds)
    auditor = await lease_lock.read(MemoryStore(stores[0]._data), keys.AUDITOR)
    assert auditor is not None
    at = next(n for n, one in enumerate(running) if one.cookie.bookie_id == auditor.bookie.bookie_id)
    others = [store for n, store in enumerate(stores) if n != at]
    rest = sum((store.calls for store in others), Counter[str]())
    minutes, theirs = seconds / 60, sum(one.bytes for one in others) / len(others)
    print(
        f"{len(stores)} bookies, idle: the auditor makes {stores[at].calls.total() / minutes:.0f} calls a minute "
        f"({dict(stores[at].calls)}, {stores[at].bytes / seconds / 1000:.1f} KB/s), another bookie "
        f"{rest.total() / len(others) / minutes:.0f} ({theirs / seconds / 1000:.1f} KB/s)",
        flush=True,
    )


async def _lose(stores: list[Counting], stacks: list[AsyncExitStack], running: list[RunningBookie]) -> None:
    """One is given up: its copies of empty ledgers are made anew by the others."""
    refs = [BookieRef(one.cookie.bookie_id, one.cookie.incarnation) for one in running]
    store, rng = MemoryStore(stores[0]._data), random.Random(SEED)
    ledgers, lost = LedgerStore(store), refs[-1]
    ids = await take_ledger_ids(store, LEDGERS_A_BOOKIE * len(refs) // 3)
    ended: dict[str, Any] = {"state": LedgerState.CLOSED, "last_entry": -1, "length_bytes": 0}
    for ledger_id in ids:
        fragment = Fragment(0, tuple(rng.sample(refs, 3)))
        await ledgers.create(
            LedgerRecord(
                ledger_id, Shape(3, 3, 2), (fragment,), created_ms=1, identity=rng.randbytes(16), **ended
            )
        )
    held = {one.ledger_id: one.record.fragments[0].ensemble async for one in ledgers.list()}
    mine = [ledger_id for ledger_id, ensemble in held.items() if lost in ensemble]
    await stacks[-1].aclose()
    await operator_requests.give(store, Order(lost.bookie_id, OrderKind.GIVEN_UP, 0))
    began = time.monotonic()
    takers: Counter[str] = Counter()
    while len(takers) == 0 or takers.total() < len(mine):
        await asyncio.sleep(0.2)
        takers.clear()
        async for one in ledgers.list():
            new = set(one.record.fragments[0].ensemble) - set(held[one.ledger_id])
            takers.update(bookie.bookie_id for bookie in new)
    print(
        f"{len(refs)} bookies, one given up: {len(mine)} copies made anew in {time.monotonic() - began:.1f} s by "
        f"{len(takers)} bookies, {max(takers.values())} at most by one",
        flush=True,
    )
