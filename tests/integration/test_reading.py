"""Reading on real bookies: with bookies down or stopped, in batches, and past what is confirmed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from bookie.serving.data import call_handler
from bookie.serving.data.call_handler import ScanState
from bookie.wire import ScanRequest
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies import bookie_calls
from ledgers.bookies.bookie_calls import BookieCalls, ScanStream
from ledgers.bookies.connected_bookies import ConnectedBookies
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
    monkeypatch.setattr(call_handler, "UNTAKEN_SECONDS_MAX", 0.1)
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
    async def always(_: ScanState) -> bool:
        return True

    monkeypatch.setattr(ScanState, "has_room", always)
    async with on_bookies(tmp_path, 1) as (_, client):
        writer = await write(client, (1, 1, 1), LONG)
        reader = await client.open_ledger(writer.ledger_id)
        async with aclosing(reader.pages()) as pages:
            await anext(pages)
            await until_true(lambda: _is_over(client))
            last_entries = [page.last_entry async for page in pages]
        assert last_entries[-1] == LONG - 1
