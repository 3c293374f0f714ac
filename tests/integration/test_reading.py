"""Reading on real bookies: with bookies down or stopped, in batches, and past what is confirmed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.serving.data import scan
from bookie.serving.data.scan import Scan
from bookie.wire import ReadReply, ReadRequest, ScanRequest
from bookie.wire.data import handshake
from ledgers import DigestMismatch, DigestType, Entry, NoSuchEntry
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies import bookie_calls
from ledgers.bookies.bookie_calls import BookieCalls
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.scan_stream import ScanStream
from ledgers.config import MIB, ClientConfig
from metadata.records.ledger_record import BookieRef
from tests.support.aio import until_true
from tests.support.in_process import on_bookies, payloads
from tests.support.long_runs import first_then_long
from tests.support.processes import on_processes

SLOW_READ_SECONDS = 10.0
READ_SECONDS_MAX = 3.0
"""Far less than a call to a stopped bookie may take, and far more than `speculative_read_seconds`."""


async def write(client: LedgerClient, shape: tuple[int, int, int], count: int) -> WriteHandle:
    e, w, a = shape
    async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
        for n in range(count):
            await writer.append_async(b"%d" % n * 300)
    return writer


@pytest.mark.parametrize("shape", first_then_long([(3, 2, 2), (3, 3, 2), (4, 2, 2)]))
async def test_a_stopped_bookie_delays_a_reader_for_less_than_a_moment(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    config = ClientConfig(read_seconds_max=SLOW_READ_SECONDS, speculative_read_seconds=0.2)
    async with on_processes(tmp_path, shape[0], config) as (cluster, client):
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


async def test_without_speculation_a_reader_waits_for_the_stopped_bookie(tmp_path: Path) -> None:
    config = ClientConfig(read_seconds_max=SLOW_READ_SECONDS, speculative_read_seconds=None)
    async with on_processes(tmp_path, 3, config) as (cluster, client):
        writer = await write(client, (3, 3, 2), 100)
        reader = await client.open_ledger(writer.ledger_id)
        cluster.pause(writer.record.fragments[0].ensemble[0])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(READ_SECONDS_MAX):
                await reader.read_entry(0)


async def test_batches_follow_each_other_to_the_last_confirmed_entry(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
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


async def test_what_is_not_known_to_be_confirmed_is_read_only_by_that_name(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
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


async def test_a_bookie_whose_digests_have_another_width_spoils_no_page_of_an_hmac_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
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
async def test_a_striped_ledger_reads_back_whole_with_a_bookie_down(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    async with on_bookies(tmp_path, 5) as (cluster, client):
        e, w, a = shape
        async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
            for n in range(3000):
                await writer.append_async(b"%d" % n)
        await cluster.stop(writer.record.fragments[0].ensemble[1].bookie_id)
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(3000)]


LONG = 40_000
"""Entries that take some forty pages: more than is read ahead."""


@pytest.mark.parametrize("harm", first_then_long(["pause", "kill"]))
async def test_a_scan_goes_on_at_the_last_bookie_when_the_others_end_in_the_middle(
    tmp_path: Path, harm: str
) -> None:
    config = ClientConfig(read_seconds_max=SLOW_READ_SECONDS, speculative_read_seconds=0.2)
    async with on_processes(tmp_path, 3, config) as (cluster, client):
        writer = await write(client, (3, 3, 3), LONG)
        ensemble = writer.record.fragments[0].ensemble
        reader = await client.open_ledger(writer.ledger_id)
        for last in ensemble:
            harmed = [bookie for bookie in ensemble if bookie != last]
            next_entry = 0
            async with aclosing(reader.pages()) as pages:
                async for page in pages:
                    assert page.first_entry == next_entry
                    next_entry = page.last_entry + 1
                    if harmed and next_entry > LONG // 10:
                        if harm == "kill":
                            cluster.kill(harmed.pop())
                        else:
                            cluster.pause(harmed.pop())
            assert next_entry == LONG and not harmed
            if harm == "pause":
                cluster.resume_all()
            for bookie in ensemble:
                if harm == "kill" and bookie != last:
                    await cluster.restart(bookie)


async def test_bookies_that_know_no_scans_are_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the version before: readers may be upgraded first."""
    scanned: list[object] = []
    monkeypatch.setattr(BookieCalls, "_scanned", lambda *asked: scanned.append(asked))
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await write(client, (3, 3, 2), LONG // 4)
        await writer.close()
        monkeypatch.setattr(handshake, "VERSION_MAX", 1)
        scanned.clear()
        async with LedgerClient(cluster.uri) as other:
            reader = await other.open_ledger(writer.ledger_id)
            assert [entry.entry_id async for entry in reader] == list(range(LONG // 4))
        assert not scanned


async def test_a_reader_that_takes_nothing_is_sent_no_more_than_its_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[ScanStream] = []
    made = ScanStream.__init__

    def kept(self: ScanStream, request: ScanRequest) -> None:
        made(self, request)
        streams.append(self)

    monkeypatch.setattr(ScanStream, "__init__", kept)
    async with on_bookies(tmp_path, 3, ClientConfig(read_ahead_pages=3)) as (_, client):
        writer = await write(client, (3, 3, 2), LONG // 4)
        reader = await client.open_ledger(writer.ledger_id)
        async with aclosing(reader.pages()) as pages:
            await anext(pages)
            (stream,) = streams
            await until_true(lambda: _has(stream, MIB))
            for _ in range(20):  # another call is answered behind whatever more would have come
                await reader.try_read_last_add_confirmed()
                assert sum(map(len, stream._came)) <= 3 * MIB
            last_entries = [page.last_entry async for page in pages]
            assert last_entries[-1] == LONG // 4 - 1


async def _has(stream: ScanStream, size_bytes: int) -> bool:
    return sum(map(len, stream._came)) >= size_bytes


async def test_a_reader_that_pauses_for_long_goes_on_with_another_scan_and_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "UNTAKEN_SECONDS_MAX", 0.1)
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await write(client, (3, 3, 2), LONG)
        reader = await client.open_ledger(writer.ledger_id)
        next_entry, pauses = 0, 3
        async with aclosing(reader.pages()) as pages:
            async for page in pages:
                assert page.first_entry == next_entry
                next_entry = page.last_entry + 1
                if pauses:
                    pauses -= 1
                    await until_true(lambda: _is_over(client))
        assert next_entry == LONG
        assert not _blamed(client)


async def _is_over(client: LedgerClient) -> bool:
    """Whether no bookie has a scan of this client under way."""
    return not any(calls._scans for calls in _calls_of(client))


def _calls_of(client: LedgerClient) -> list[BookieCalls]:
    assert client._cluster is not None and isinstance(client._cluster.bookies, ConnectedBookies)
    return list(client._cluster.bookies._calls.values())


def _blamed(client: LedgerClient) -> frozenset[BookieRef]:
    assert client._cluster is not None
    return client._cluster.slow_or_failed_lately() | client._cluster.failed_lately()


async def test_readers_that_stand_half_way_keep_nobody_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bookie_calls, "SCANS_MAX", 2)
    async with on_bookies(tmp_path, 1) as (_, client):
        writer = await write(client, (1, 1, 1), LONG // 4)
        reader = await client.open_ledger(writer.ledger_id)
        standing = [reader.pages() for _ in range(6)]
        first = [await anext(pages) for pages in standing]
        assert [len(calls._scans) for calls in _calls_of(client)] == [2]
        assert (await reader.read_entry(3)).entry_id == 3
        for page, pages in zip(first, standing, strict=True):
            async with aclosing(pages):
                last = [page.last_entry, *[page.last_entry async for page in pages]]
            assert last[-1] == LONG // 4 - 1
        assert not _blamed(client)
        assert await _is_over(client)


async def test_a_bookie_that_keeps_no_window_is_hung_up_on_and_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def always(_: Scan) -> bool:
        return True

    monkeypatch.setattr(Scan, "has_room", always)
    async with on_bookies(tmp_path, 1) as (_, client):
        writer = await write(client, (1, 1, 1), LONG)
        reader = await client.open_ledger(writer.ledger_id)
        async with aclosing(reader.pages()) as pages:
            await anext(pages)
            await until_true(lambda: _is_over(client))
            last_entries = [page.last_entry async for page in pages]
        assert last_entries[-1] == LONG - 1
