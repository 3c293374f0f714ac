"""A journal with three acceptors on real bookies, and ways to spoil it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ledgers.aio import LedgerClient
from metadata.records.journal_record import FinalizedSegment
from metadata.records.journal_store import JournalStore
from qjm_compat.acceptor.acceptor_ledgers import AcceptorLedgers, NewSegment
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.config import AcceptorConfig, JournalConfig
from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.checking.journal_findings import JournalFindings
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, LAYOUT, NAMESPACE_ID, frames
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

NAMES = ("a", "b", "c")


class Journal:
    """Segments 1-10 and 11-20 at three acceptors, and ways to spoil them."""

    def __init__(self, cluster: InProcessCluster, client: LedgerClient) -> None:
        self.cluster = cluster
        self.client = client
        self.acceptors = [AcceptorConfig(name, cluster.uri) for name in NAMES]

    def manager(self) -> QuorumJournalManager:
        return QuorumJournalManager(self.cluster.uri, "ns1", acceptors=self.acceptors, client_config=QUICK)

    async def write(self) -> None:
        namespace = NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT)
        async with self.manager() as manager:
            await manager.format(namespace)
            await manager.recover_unfinalized_segments()
            for first in (1, 11):
                async with await manager.start_log_segment(first) as out:
                    for txid in range(first, first + 10, 5):
                        out.write_raw(frames(txid, txid + 4), 5)
                        out.set_ready_to_flush()
                        await out.flush()
                await manager.finalize_log_segment(first, first + 9)
            async with (
                self.inspector() as inspector
            ):  # what two acceptors have done the third may still be doing
                assert await inspector.lacking(11) == []

    def inspector(self) -> JournalInspector:
        return JournalInspector("ns1", self.acceptors, client_config=QUICK)

    async def check(self, *, deep: bool = False, orphan_age_seconds: float = 3600) -> JournalFindings:
        async with self.inspector() as inspector:
            return await check_journal(inspector, deep=deep, orphan_age_seconds=orphan_age_seconds)

    async def problems(self, *, deep: bool = False) -> list[str]:
        return [str(problem) for problem in (await self.check(deep=deep)).problems]

    def store(self, acceptor: str) -> JournalStore:
        return JournalStore(self.cluster.store, "ns1", acceptor)

    async def record(self, acceptor: str) -> FinalizedSegment:
        """The record of segment 1, which no state holds any more."""
        found = await self.store(acceptor).read_segment(1)
        assert found is not None
        return found.segment

    async def lose_record(self, acceptor: str, start_txid: int = 1) -> None:
        found = await self.store(acceptor).read_segment(start_txid)
        assert found is not None
        await self.store(acceptor).delete_segment(found)

    async def lose(self, key: str) -> None:
        found = await self.cluster.store.get(key)
        assert found is not None
        await self.cluster.store.delete(key, found.version)

    async def overwrite(self, key: str) -> None:
        found = await self.cluster.store.get(key)
        assert found is not None
        await self.cluster.store.replace(key, b"garbage!", found.version)

    async def put(self, acceptor: str, segment: FinalizedSegment) -> None:
        found = await self.store(acceptor).read_segment(segment.start_txid)
        assert found is not None
        assert await self.store(acceptor).put_segment(segment, found.version)

    async def ledger(self, acceptor: str, *batches: Batch, first_txid: int = 1, closed: bool = True) -> int:
        """A ledger with these batches, made for a segment of the acceptor."""
        ledgers = AcceptorLedgers(self.client, "ns1", acceptor, JournalConfig())
        ledger_id = await ledgers.create(NewSegment(first_txid, LAYOUT, 1))
        for batch in batches:
            await (await ledgers.append(ledger_id, batch)).confirmed()
        if closed:
            await ledgers.end(ledger_id)
        return ledger_id

    async def replace_ledger(self, acceptor: str, ledger_id: int) -> None:
        await self.put(acceptor, replace(await self.record(acceptor), ledger_id=ledger_id))


@asynccontextmanager
async def on_a_journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        journal = Journal(cluster, client)
        await journal.write()
        yield journal


def batch_of(records: bytes, num_txns: int = 10) -> Batch:
    return Batch(1, num_txns, records, None, 1)
