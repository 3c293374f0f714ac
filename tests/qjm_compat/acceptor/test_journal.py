"""The product's acceptor, on real bookies and SQLite, keeps the contract; and what only it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ledgers.aio import LedgerClient
from metadata.records.journal_record import JournalState
from metadata.records.journal_store import JournalStore
from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER, JOURNAL_OF_LEDGER, SEGMENT_OF_LEDGER
from qjm_compat.acceptor.journal import Journal
from qjm_compat.acceptor.programs import state_transitions
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.config import JournalConfig
from qjm_compat.errors import BadRequest, EditsNotCached
from qjm_compat.requests import DiscardSegments, GetJournaledEdits
from tests.contracts.journal_acceptor import SyncedAcceptorContract, assert_shows
from tests.qjm_compat.acceptor.one_writer import content, edits, first_writer, next_writer, writer_of
from tests.support.in_process import QUICK, InProcessCluster, cluster_of, on_bookies

CONFIG = JournalConfig(ensemble_size=1)


class RealPlace:
    """Processes on one cluster. They share a client, which fences no less for that."""

    def __init__(
        self, cluster: InProcessCluster, client: LedgerClient, config: JournalConfig = CONFIG
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._client = client

    def process(self, name: str = "a", journal_id: str = "ns1") -> Journal:
        peers: dict[str, Journal] = {}
        for one in ("a", "b"):
            peers[one] = Journal(journal_id, one, self._cluster.store, self._client, self._config, peers)
        return peers[name]

    async def state(self, name: str = "a", journal_id: str = "ns1") -> JournalState | None:
        found = await JournalStore(self._cluster.store, journal_id, name).read_state()
        return found.state if found is not None else None

    async def ledgers(self, name: str = "a", journal_id: str = "ns1") -> set[int]:
        labels = {JOURNAL_OF_LEDGER: journal_id.encode(), ACCEPTOR_OF_LEDGER: name.encode()}
        return {
            record.ledger_id
            async for record in self._client.list_ledgers()
            if labels.items() <= dict(record.custom_metadata).items()
        }

    async def records(self, name: str = "a", journal_id: str = "ns1") -> dict[int, int]:
        found = JournalStore(self._cluster.store, journal_id, name).list_segments()
        return {one.segment.start_txid: one.segment.end_txid async for one in found}

    async def finalize_without_a_record(self, start_txid: int, end_txid: int) -> None:
        store = JournalStore(self._cluster.store, "ns1", "a")
        found = await store.read_state()
        assert found is not None
        segment = state_transitions.segment_at(found.state, start_txid)
        assert segment is not None
        await self._client.open_ledger(segment.ledger_id)
        await store.swap_state(state_transitions.finalized(found.state, start_txid, end_txid), found.version)

    async def lose_ledger(self, start_txid: int) -> None:
        (ledger,) = [
            record.ledger_id
            async for record in self._client.list_ledgers()
            if dict(record.custom_metadata)[SEGMENT_OF_LEDGER] == str(start_txid).encode()
        ]
        await self._client.delete_ledger(ledger)


class TestJournal(SyncedAcceptorContract):
    neighbours_only = True

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path

    @asynccontextmanager
    async def new_place(self) -> AsyncIterator[RealPlace]:
        async with cluster_of(self.path, 1) as cluster, LedgerClient(cluster.uri, config=QUICK) as client:
            yield RealPlace(cluster, client)


@asynccontextmanager
async def on_one_bookie(path: Path, config: JournalConfig = CONFIG) -> AsyncIterator[RealPlace]:
    async with on_bookies(path, 1) as (cluster, client):
        yield RealPlace(cluster, client, config)


async def served(journal: Journal, since_txid: int, last_txid: int) -> dict[str, float]:
    """Asks for edits, which must be these, and tells what it cost."""
    found = await journal.call(GetJournaledEdits(since_txid, 1000))
    assert found.records == edits(since_txid, last_txid, 1)
    return journal.metrics.snapshot()


async def test_the_latest_edits_come_from_memory_and_older_ones_from_the_ledgers(tmp_path: Path) -> None:
    async with on_one_bookie(tmp_path, JournalConfig(ensemble_size=1, edits_cache_bytes_max=500)) as place:
        journal = place.process()
        await (await first_writer(journal)).write_open(1, 20)
        await assert_shows(place.process(), [(1, 20, True)])
        values = await served(journal, 18, 20)
        assert values["RpcRequestCacheMissAmountNumMisses"] == 0
        values = await served(journal, 2, 20)
        assert values["RpcRequestCacheMissAmountNumMisses"] == 1
        assert values["TxnsServedViaRpc"] == 3 + 19


async def test_who_counts_on_being_told_gets_a_miss_for_edits_that_are_not_at_hand(tmp_path: Path) -> None:
    async with on_one_bookie(tmp_path, JournalConfig(ensemble_size=1, edits_cache_bytes_max=500)) as place:
        journal = place.process()
        await (await first_writer(journal)).write_final(1, 20)
        assert (await journal.call(GetJournaledEdits(18, 1000, cached_only=True))).records == edits(18, 20, 1)
        restarted = place.process()
        for one, since_txid in ((journal, 2), (restarted, 18)):
            with pytest.raises(EditsNotCached):
                await one.call(GetJournaledEdits(since_txid, 1000, cached_only=True))
            assert (await one.call(GetJournaledEdits(since_txid, 1000))).records == edits(since_txid, 20, 1)
        assert (await restarted.call(GetJournaledEdits(21, 1000, cached_only=True))).txn_count == 0


async def test_edits_at_hand_are_forgotten_with_the_journal_they_belonged_to(tmp_path: Path) -> None:
    async with on_one_bookie(tmp_path) as place:
        journal = place.process()
        await (await first_writer(journal)).write_open(1, 3)
        await journal.call(DiscardSegments(1))
        assert (await journal.call(GetJournaledEdits(1, 10))).txn_count == 0
        later = await next_writer(journal)
        await later.write_open(1, 1)
        assert (await journal.call(GetJournaledEdits(1, 10))).records == edits(1, 1, later.epoch)


async def test_batches_on_their_way_to_disk_together_are_confirmed_in_order(tmp_path: Path) -> None:
    async with on_one_bookie(tmp_path) as place:
        journal = place.process()
        writer = await first_writer(journal)
        await writer.start(1)
        await asyncio.gather(*(writer.send(1, txid) for txid in range(1, 101)))
        await writer.finalize(1, 100)
        assert await content(place.process(), 1) == edits(1, 100, 1)


async def test_a_crash_between_any_two_batches_keeps_what_was_confirmed(tmp_path: Path) -> None:
    async with on_one_bookie(tmp_path) as place:
        journal = place.process()
        writer = await first_writer(journal)
        await writer.start(1)
        under_way = [asyncio.ensure_future(writer.send(1, txid)) for txid in range(1, 31)]
        await under_way[9]
        await journal.close()
        await asyncio.wait(under_way)
        confirmed = sum(task.exception() is None for task in under_way)
        later = await writer_of(place.process(), 2)
        found = (await later.prepare(1)).segment
        assert found is not None
        assert 10 <= confirmed <= found.end_txid <= 30


@pytest.mark.parametrize("journal_id", ["", "a/b", ".hidden", "..", "a b"])
def test_a_bad_journal_id_is_refused(journal_id: str) -> None:
    with pytest.raises(BadRequest, match="bad journal id"):
        QuorumJournalManager("memory:", journal_id)
