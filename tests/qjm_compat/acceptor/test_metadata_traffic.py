"""Batches go past the metadata: a segment costs the same few operations however much is written to it."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from ledgers.aio import LedgerClient
from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import MetadataStore, Page, Versioned
from metadata.version import Version
from qjm_compat.acceptor.journal import Journal
from qjm_compat.config import JournalConfig
from tests.qjm_compat.acceptor.one_writer import OneWriter, first_writer
from tests.support.in_process import QUICK, InProcessCluster, cluster_of

CONFIG = JournalConfig(ensemble_size=1)


class CountingStore(MemoryStore):
    """A journal's records, and how often they are asked for and changed."""

    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.operations: Counter[str] = Counter()

    async def get(self, key: str) -> Versioned | None:
        self.operations["get"] += 1
        return await super().get(key)

    async def create(self, key: str, *args: Any, **options: Any) -> Version:
        self.operations["create"] += 1
        return await super().create(key, *args, **options)

    async def replace(self, key: str, *args: Any, **options: Any) -> Version:
        self.operations["replace"] += 1
        return await super().replace(key, *args, **options)

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = 1000) -> Page:
        self.operations["list"] += 1
        return await super().list_page(prefix, after=after, limit=limit)


async def ledger_changes(store: MetadataStore, after_revision: int) -> int:
    """How often the record of a ledger was made or changed since, and nothing else: leases are renewed by the clock."""
    newest = max((item.version for item in (await store.list_page("ledgers/")).items), default=0)
    changes = 0
    if newest > after_revision:
        async with aclosing(store.watch("ledgers/", after_revision=after_revision)) as events:
            async for event in events:
                changes += 1
                if event.revision >= newest:
                    break
    return changes


async def cost_of_a_segment(
    cluster: InProcessCluster, client: LedgerClient, batches: int
) -> tuple[Counter[str], int]:
    """Operations on the journal's records, and changes of the ledgers', from the start to the finalization."""
    store = CountingStore()
    journal = Journal(f"ns{batches}", "a", store, client, CONFIG, {})
    writer = await first_writer(journal)
    await writer.write_final(1, 1)
    store.operations.clear()
    before = (await cluster.store.list_page("ledgers/")).revision
    await _write(writer, batches)
    return store.operations, await ledger_changes(cluster.store, before)


async def _write(writer: OneWriter, batches: int) -> None:
    await writer.start(2)
    for txid in range(2, 2 + batches):
        writer.committed_txid = txid - 1
        await writer.send(2, txid)
    await writer.finalize(2, 1 + batches)


async def test_a_thousand_batches_cost_no_more_metadata_than_ten(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, 1) as cluster, LedgerClient(cluster.uri, config=QUICK) as client:
        few, many = [await cost_of_a_segment(cluster, client, batches) for batches in (10, 1000)]
        assert few == many
        assert few[1] > 0
        assert few[0]["replace"] + few[0]["create"] <= 4
        assert sum(few[0].values()) <= 12


@pytest.mark.parametrize("segments", [3, 30])
async def test_the_state_does_not_grow_with_the_journal(tmp_path: Path, segments: int) -> None:
    async with cluster_of(tmp_path, 1) as cluster, LedgerClient(cluster.uri, config=QUICK) as client:
        store = CountingStore()
        journal = Journal("ns1", "a", store, client, CONFIG, {})
        writer = await first_writer(journal)
        for first in range(1, 2 * segments, 2):
            await writer.write_final(first, first + 1)
        found = await store.get("journals/ns1/a/state")
        assert found is not None
        assert len(found.value) < 150
