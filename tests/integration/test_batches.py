"""Appends in batches, and appends that nobody waits for: both clients, plain, deferred and with ids of the caller."""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from pathlib import Path

import pytest

from bookie.wire import ENTRY_BYTES_MAX
from ledgers import (
    ClientConfig,
    DigestType,
    EntryTooLarge,
    LedgerClient,
    LedgerClosed,
    LedgerFenced,
    WriterFull,
    aio,
)
from ledgers.config import MIB
from tests.support.in_process import on_bookies, payloads


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"entry %d" % n for n in range(first, first + count)]


@pytest.mark.parametrize("deferred_sync", [False, True])
@pytest.mark.parametrize("shape", [(3, 3, 2), (4, 2, 2)])
async def test_batches_and_single_appends_are_one_sequence(
    tmp_path: Path, shape: tuple[int, int, int], deferred_sync: bool
) -> None:
    async with on_bookies(tmp_path, e_of(shape)) as (_, client):
        e, w, a = shape
        writer = await client.create_ledger(
            ensemble_size=e, write_quorum=w, ack_quorum=a, deferred_sync=deferred_sync
        )
        assert await writer.append_batch([]) == range(0)
        assert await writer.append_batch(numbered(100)) == range(100)
        assert await writer.append(b"entry 100") == 100
        assert [writer.append_nowait(one) for one in numbered(50, 101)] == list(range(101, 151))
        both = await asyncio.gather(
            writer.append_batch(numbered(2000, 151)), writer.append_batch(numbered(7, 2151))
        )
        assert list(both) == [range(151, 2151), range(2151, 2158)]
        await writer.confirmed(120)
        await writer.confirmed(2157)
        with pytest.raises(ValueError, match=r"entry 2158 of ledger .* was not appended"):
            await writer.confirmed(2158)
        await writer.close()
        await writer.confirmed(2157)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == numbered(2158)


def e_of(shape: tuple[int, int, int]) -> int:
    return shape[0]


async def test_of_a_batch_with_something_wrong_nothing_is_appended(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger()
        with pytest.raises(EntryTooLarge):
            await writer.append_batch([b"a", bytes(ENTRY_BYTES_MAX + 1)])
        with pytest.raises(TypeError, match="a payload must be bytes, bytearray or memoryview, not str"):
            await writer.append_batch([b"a", "b"])  # type: ignore[list-item]
        assert await writer.append_batch([b"a"]) == range(1)
        await writer.close()
        with pytest.raises(LedgerClosed):
            await writer.append_batch([b"b"])
        with pytest.raises(LedgerClosed):
            writer.append_nowait(b"b")


async def test_who_does_not_wait_is_told_that_the_writer_is_full_and_goes_on_later(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, other):
        del other
        async with aio.LedgerClient(cluster.uri, config=ClientConfig(pending_bytes_max=MIB)) as client:
            writer = await client.create_ledger()
            last = -1
            with pytest.raises(WriterFull, match="wait until earlier entries are"):
                for _ in range(100):
                    last = writer.append_nowait(bytes(100_000))
            assert 5 < last < 20
            await writer.confirmed(last)
            assert writer.append_nowait(b"more") == last + 1
            await writer.close()


async def test_what_ends_the_writer_is_told_to_those_who_wait_for_confirmation(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger()
        await writer.append_batch(numbered(3))
        await client.open_ledger(writer.ledger_id)  # recovers, and fences
        with pytest.raises(LedgerFenced):  # from the first: an idle writer is told too, a little later
            await writer.confirmed(writer.append_nowait(b"too late"))
        with pytest.raises(LedgerFenced):
            await writer.append_batch([b"a"])
        await writer.confirmed(2)


async def test_entries_with_ids_of_the_caller_come_in_batches_too(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        async with await client.create_ledger_adv() as writer:
            writer.append_nowait(2, b"c")
            with pytest.raises(ValueError, match="was not appended"):
                await writer.confirmed(2)
            assert await writer.append_batch([(1, b"b"), (0, b"a"), (3, b"d")]) == [1, 0, 3]
            await writer.confirmed(3)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"a", b"b", b"c", b"d"]


def test_the_blocking_client_has_the_same(uri: str) -> None:
    with LedgerClient(uri) as client:
        with client.create_ledger(digest=DigestType.CRC32C) as writer:
            assert writer.append_batch([]) == range(0)
            futures = [writer.append_async(one) for one in numbered(10)]
            assert writer.append_nowait(b"entry 10") == 10
            assert writer.append_batch(numbered(500, 11)) == range(11, 511)
            assert writer.append(b"entry 511") == 511
            done, not_done = wait(futures, timeout=10)
            assert ({one.result() for one in done}, not_done) == (set(range(10)), set())
            last = [writer.append_nowait(one) for one in numbered(1000, 512)][-1]
            writer.confirmed(last)
            assert writer.last_add_confirmed >= last == 1511
            with pytest.raises(ValueError, match="was not appended"):
                writer.confirmed(1512)
            with pytest.raises(EntryTooLarge):
                writer.append_batch([bytes(ENTRY_BYTES_MAX + 1)])
        with pytest.raises(LedgerClosed):
            writer.append_nowait(b"x")
        with client.create_ledger_adv() as advanced:
            advanced.append_nowait(0, b"a")
            assert advanced.append_batch([(1, b"b")]) == [1]
            advanced.confirmed(1)
        with client.open_ledger(writer.ledger_id) as reader:
            assert [bytes(entry.payload) for entry in reader.read()] == numbered(1512)


def test_a_future_of_the_blocking_client_waits_for_itself_and_not_for_others(uri: str) -> None:
    """All futures of a writer share one condition."""
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        futures = [writer.append_async(b"x") for _ in range(200)]
        assert [future.result(timeout=10) for future in reversed(futures)] == list(range(199, -1, -1))
        assert all(future.exception(timeout=1) is None for future in futures)
