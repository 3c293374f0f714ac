"""Reading on real bookies: with bookies down or stopped, in batches, and past what is confirmed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.wire import ReadReply, ReadRequest
from ledgers import DigestMismatch, DigestType, Entry, NoSuchEntry
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.config import MIB, ClientConfig
from metadata.records.ledger_record import BookieRef
from tests.support.in_process import InProcessCluster, on_bookies, payloads
from tests.support.processes import ProcessCluster, on_processes

SLOW_READ_SECONDS = 10.0
READ_SECONDS_MAX = 3.0
"""Far less than a call to a stopped bookie may take, and far more than `speculative_read_seconds`."""


async def write(client: LedgerClient, shape: tuple[int, int, int], count: int) -> WriteHandle:
    e, w, a = shape
    async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
        for n in range(count):
            await writer.append_async(b"%d" % n * 300)
    return writer


@pytest.mark.parametrize("shape", [(3, 3, 2), (3, 2, 2), (4, 2, 2)])
def test_a_stopped_bookie_delays_a_reader_for_less_than_a_moment(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    async def scenario(cluster: ProcessCluster, client: LedgerClient) -> None:
        writer = await write(client, shape, 6000)
        reader = await client.open_ledger(writer.ledger_id)
        assert (await reader.read_entry(0)).entry_id == 0  # so that its bookies are connected
        for bookie in writer.record.fragments[0].ensemble[:1]:
            cluster.pause(bookie)
        before = asyncio.all_tasks()
        async with asyncio.timeout(READ_SECONDS_MAX):
            assert [entry.entry_id async for entry in reader.read()] == list(range(6000))
        names = {str(task.get_coro()) for task in asyncio.all_tasks() - before}
        assert not [name for name in names if "PageFetcher" in name], "nobody still waits for it"
        async with asyncio.timeout(READ_SECONDS_MAX):
            fresh = await client.open_ledger(writer.ledger_id)
            assert len(await fresh.read_batch(0, entries_max=9, bytes_max=MIB)) == 9

    config = ClientConfig(read_seconds_max=SLOW_READ_SECONDS, speculative_read_seconds=0.2)
    on_processes(tmp_path, shape[0], scenario, config)


def test_without_speculation_a_reader_waits_for_the_stopped_bookie(tmp_path: Path) -> None:
    async def scenario(cluster: ProcessCluster, client: LedgerClient) -> None:
        writer = await write(client, (3, 3, 2), 100)
        reader = await client.open_ledger(writer.ledger_id)
        cluster.pause(writer.record.fragments[0].ensemble[0])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(READ_SECONDS_MAX):
                await reader.read_entry(0)

    config = ClientConfig(read_seconds_max=SLOW_READ_SECONDS, speculative_read_seconds=None)
    on_processes(tmp_path, 3, scenario, config)


def test_batches_follow_each_other_to_the_last_confirmed_entry(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await write(client, (3, 3, 2), 3000)
        reader = await client.open_ledger(writer.ledger_id)
        whole: list[Entry] = []
        while len(whole) < 3000:
            batch = await reader.read_batch(len(whole), entries_max=700, bytes_max=500_000)
            assert 1 <= len(batch) <= 700
            assert sum(len(entry.payload) for entry in batch) <= 500_000
            whole += batch
        assert whole == [Entry(n, b"%d" % n * 300) for n in range(3000)]
        with pytest.raises(NoSuchEntry):
            await reader.read_batch(3000, entries_max=1, bytes_max=1)

    on_bookies(tmp_path, 3, scenario)


def test_what_is_not_known_to_be_confirmed_is_read_only_by_that_name(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        reader = await client.open_ledger(writer.ledger_id, recovery=False)
        for n in range(10):
            await writer.append(b"%d" % n)
        assert reader.last_add_confirmed == -1, "nobody has told it"
        with pytest.raises(NoSuchEntry):
            await reader.read_entry(0)
        assert [e.payload async for e in reader.read_unconfirmed(3, 9)] == [b"%d" % n for n in range(3, 10)]
        seen: list[int] = []
        with pytest.raises(NoSuchEntry, match="no readable entry 10"):
            async for entry in reader.read_unconfirmed(8, 20):
                seen.append(entry.entry_id)
        assert seen == [8, 9]
        assert await writer.append(b"undisturbed") == 10
        await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_a_bookie_whose_digests_have_another_width_spoils_no_page_of_an_hmac_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(
            ensemble_size=3, write_quorum=2, ack_quorum=2, digest=DigestType.HMAC_SHA256, password=b"p"
        )
        for n in range(30):
            await writer.append(b"%d" % n)
        await writer.close()
        liars = {str(bookie) for bookie in writer.record.fragments[0].ensemble[:1]}
        cut_digests_of(liars, monkeypatch)
        reader = await client.open_ledger(writer.ledger_id, password=b"p")
        assert await payloads(reader) == [b"%d" % n for n in range(30)]
        liars |= {str(bookie) for bookie in writer.record.fragments[0].ensemble}
        with pytest.raises(DigestMismatch):
            await reader.read_entry(0)

    on_bookies(tmp_path, 3, scenario)


def cut_digests_of(liars: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """These bookies answer with digests of four bytes."""
    honest = ConnectedBookies.read

    async def read(self: ConnectedBookies, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        reply = await honest(self, bookie, request)
        if str(bookie) not in liars:
            return reply
        columns = reply.columns
        short = b"".join(columns.digests[32 * n : 32 * n + 4] for n in range(len(columns)))
        return replace(reply, columns=replace(columns, digests=short))

    monkeypatch.setattr(ConnectedBookies, "read", read)


@pytest.mark.parametrize("shape", [(5, 3, 2), (4, 2, 2), (3, 2, 2)])
def test_a_striped_ledger_reads_back_whole_with_a_bookie_down(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        e, w, a = shape
        async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
            for n in range(3000):
                await writer.append_async(b"%d" % n)
        await cluster.stop(writer.record.fragments[0].ensemble[1].bookie_id)
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(3000)]

    on_bookies(tmp_path, 5, scenario)
