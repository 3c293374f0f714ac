"""L10: records are stored once, on real bookies: over retries, rolls, take-overs, and killed producers.

That records of one producer are taken in in the order of the calls: test_producers_in_order.py; what a log remembers:
ledgers/logs/test_producer_memory.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from bookledger.errors import LogClosed, LogFenced, ProducerForgotten, SequenceTooOld
from ledgers import LedgerClient as BlockingClient
from ledgers import NewRecord, Record
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from ledgers.logs.producers import producer_memory
from ledgers.logs.producers.producer_memory import ProducerMemory
from metadata import keys
from metadata.records.logs.producer_record import ProducerStore
from tests.support.in_process import InProcessCluster, on_bookies

TEN = [b"%d" % n for n in range(10)]


async def stored(log: Log) -> list[tuple[str | None, int | None, bytes]]:
    return [(one.producer, one.sequence, one.payload) async for one in log.read()]


async def snapshots(cluster: InProcessCluster) -> list[int]:
    """The positions that have one."""
    found = await cluster.store.list_page(keys.LOG_PRODUCERS)
    return [int(item.key.rpartition("/")[2], 16) for item in found.items]


async def test_L10_a_retry_gets_the_position_of_what_is_stored_already(log: Log) -> None:
    async with await log.writer() as writer:
        assert await writer.append(b"bare") == 0
        futures = [await writer.append_async(b"a", producer="till-7", sequence=5) for _ in range(3)]
        assert [await future for future in futures] == [1, 1, 1]
        assert await writer.append(b"again", producer="till-7", sequence=5) == 1
        assert await writer.append(b"b", producer="till-7", sequence=9) == 2
        assert await writer.append(b"a", producer="till-7", sequence=5) == 1
        with pytest.raises(SequenceTooOld, match="older than its last one, 9 at position 2"):
            await writer.append(b"a", producer="till-7", sequence=7)
        assert [writer.last_sequence(name) for name in ("till-7", "till-8")] == [9, None]
    assert await stored(log) == [(None, None, b"bare"), ("till-7", 5, b"a"), ("till-7", 9, b"b")]


async def test_the_first_records_of_a_log_with_producers_keep_their_order(log: Log) -> None:
    """They wait for the log's record to be changed, and those that come a moment later do not overtake them."""
    async with await log.writer() as writer:
        appends: list[asyncio.Task[int]] = []
        behind = 20
        while behind:
            behind -= writer.producers.is_begun
            append = writer.append(b"x", producer="a", sequence=len(appends))
            appends.append(asyncio.create_task(append))
            await asyncio.sleep(0)
        assert [await one for one in appends] == list(range(len(appends)))


async def test_L10_over_take_overs_rolls_and_truncations_each_sequence_is_stored_once(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    """Each writer is gone before it could close, or closes, or has written nothing."""
    log = await client.create_log("orders", roll_records=4)
    for n in range(12):
        writer = await log.writer()
        for sequence in range(max(0, 3 * n - 1), 3 * n + 3):
            position = await writer.append(b"%d" % sequence, producer="a", sequence=sequence)
            assert position == sequence
        if n % 3 == 0:
            await writer.abandon()
        elif n % 3 == 1:
            await writer.close()
        else:
            await log.truncate(await log.end())
            await writer.close()
        await (await log.writer()).close()
    async with await log.writer() as writer:
        assert writer.last_sequence("a") == 35
        assert await writer.append(b"35", producer="a", sequence=35) == 35
        assert len(await snapshots(cluster)) <= 2
    await client.delete_log("orders")
    assert await snapshots(cluster) == []


async def test_L10_a_batch_that_was_stored_in_part_is_stored_once(client: LedgerClient) -> None:
    log = await client.create_log("orders", roll_records=3)
    batch: Sequence[bytes | NewRecord] = [b"0", NewRecord(b"1", key=b"k"), b"2", b"3", b"4"]
    writer = await log.writer()
    assert await writer.append_batch(batch[:3], producer="a", sequence=10) == range(3)
    await writer.append(b"of another")
    await writer.abandon()
    async with await log.writer() as writer:
        assert await writer.append_batch(batch, producer="b", sequence=0) == range(4, 9)
        assert await writer.append_batch(batch, producer="a", sequence=10) == [0, 1, 2, 9, 10]
        assert await writer.append_batch([], producer="a", sequence=15) == range(11, 11)
        with pytest.raises(ValueError, match="needs both"):
            await writer.append_batch(batch, producer="a")
    assert [(s, p) for name, s, p in await stored(log) if name == "a"] == [
        (10 + n, b"%d" % n) for n in range(5)
    ]


async def test_L10_a_writer_that_was_followed_gives_no_position_that_is_not_in_the_log(log: Log) -> None:
    old = await log.writer()
    assert await old.append(b"0", producer="a", sequence=0) == 0
    new = await log.writer()
    for _ in range(2):  # the second one is the retry of what was not stored
        with pytest.raises(LogFenced):
            await old.append(b"1", producer="a", sequence=1)
    assert await new.append(b"1", producer="a", sequence=1) == 1
    await new.close()


async def test_L10_a_sequence_is_too_old_once_the_later_one_is_in_the_log(
    cluster: InProcessCluster, log: Log
) -> None:
    """A writer that fails before that does not say so: neither may be stored."""
    writer = await log.writer()
    await writer.append(b"0", producer="a", sequence=0)
    for name in ("b2", "b3"):  # nothing is confirmed from here on
        await cluster.stop(name)
    later = await writer.append_async(b"2", producer="a", sequence=2)
    earlier = asyncio.create_task(writer.append(b"1", producer="a", sequence=1))
    await asyncio.sleep(0)  # it is taken in
    await writer.abandon()
    outcomes = await asyncio.gather(later, earlier, return_exceptions=True)
    assert [type(one) for one in outcomes] == [LogClosed, LogClosed]


async def test_L10_a_log_that_never_had_a_producer_keeps_nothing_of_them(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log = await client.create_log("orders", roll_records=2)
    async with await log.writer() as writer:
        for n in range(5):
            await writer.append(b"%d" % n)
    assert (await log.refresh()).producers_from is None
    assert await snapshots(cluster) == []


async def test_L10_a_take_over_reads_the_records_of_the_last_segment_only(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await client.create_log("orders", roll_records=10)
    writer = await log.writer()
    for n in range(95):
        await writer.append(b"%d" % n, producer=f"p{n}", sequence=n)
    await writer.abandon()
    read: list[int] = []
    reads = ProducerMemory.read

    def seen(self: ProducerMemory, *batch: object) -> None:
        read.append(len(batch[0]))  # type: ignore[arg-type]
        reads(self, *batch)  # type: ignore[arg-type]

    monkeypatch.setattr(ProducerMemory, "read", seen)
    async with await log.writer() as writer:
        assert sum(read) <= 20
        assert [writer.last_sequence(f"p{n}") for n in range(95)] == list(range(95))


async def test_what_falls_out_of_the_bound_is_refused_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(producer_memory, "PRODUCERS_MAX", 2)
    async with on_bookies(tmp_path, 3) as (_, client):
        log = await client.log("orders", create=True)
        async with await log.writer() as writer:
            for n, name in enumerate(("a", "b", "c")):
                await writer.append(b"x", producer=name, sequence=n)
            assert "log 'orders' has forgotten 1 more producers, 1 in total" in caplog.text
        async with await log.writer() as writer:
            with pytest.raises(ProducerForgotten, match="producer 'a'"):
                await writer.append(b"x", producer="a", sequence=0)
            assert writer.last_sequence("a") is None
            assert await writer.append(b"x", producer="a2", sequence=0) == 3


async def test_metadata_without_the_snapshot_is_told_and_the_log_read(
    cluster: InProcessCluster, client: LedgerClient, caplog: pytest.LogCaptureFixture
) -> None:
    """As after it was made again from what bookies have."""
    log = await client.create_log("orders", roll_records=3)
    async with await log.writer() as writer:
        for n in range(10):
            await writer.append(b"%d" % n, producer="a", sequence=n)
    await ProducerStore(cluster.store, log.record.identity).drop_all()
    async with await log.writer() as writer:
        assert "has no snapshot of its producers at position 10: reading it from position 0 on" in caplog.text
        assert await writer.append(b"9", producer="a", sequence=9) == 9


async def test_L10_a_producer_whose_answers_are_lost_stores_each_record_once(client: LedgerClient) -> None:
    """It takes the log over for each try, and none of the writers before it is told to stop."""
    log = await client.create_log("orders", roll_records=5)
    for sequence in range(8):
        for _ in range(3):
            writer = await log.writer()
            appended = await writer.append_async(b"%d" % sequence, producer="a", sequence=sequence)
            await asyncio.wait([appended])
            await writer.abandon()  # and it never heard of it
    assert [sequence for _, sequence, _ in await stored(log)] == list(range(8))


async def test_L10_a_producer_that_sends_all_again_learns_where_each_record_is(client: LedgerClient) -> None:
    """One by one and in other batches than before, to the same writer and to later ones; others append in between."""
    log = await client.create_log("orders", roll_records=150)
    stored: dict[int, int] = {}
    writer = await log.writer()
    for first in range(0, 1000, 10):
        stored |= zip(
            range(first, first + 10),
            await writer.append_batch(TEN, producer="a", sequence=first),
            strict=True,
        )
        await writer.append(b"of another", producer="b", sequence=first)
    for ends in (writer.abandon, None):
        again = [await writer.append_async(b"again", producer="a", sequence=n) for n in range(1000)]
        assert [await one for one in again] == list(stored.values())
        for first in range(0, 1000, 25):
            batch = await writer.append_batch([b"again"] * 25, producer="a", sequence=first)
            assert batch == [stored[n] for n in range(first, first + 25)]
        if ends is not None:
            await ends()
            writer = await log.writer()
    assert await writer.append_batch([b"x"] * 1001, producer="a", sequence=0) == [*stored.values(), 1100]
    await writer.close()


def test_L10_once_in_ordinary_code(uri: str) -> None:
    with BlockingClient(uri) as client:
        log = client.log("orders", create=True)
        with log.writer() as writer:
            futures = [writer.append_async(b"%d" % n, producer="a", sequence=n // 2) for n in range(200)]
            assert [future.result() for future in futures] == [n // 2 for n in range(200)]
            assert writer.append_nowait(b"bare") == 100
            assert writer.append_batch([b"x", b"y"], producer="b", sequence=0) == range(101, 103)
            assert writer.append_batch([b"x", b"y", b"z"], producer="b", sequence=0) == [101, 102, 103]
            assert (writer.next_position, writer.last_sequence("b")) == (104, 2)
            assert writer.append(b"0", producer="a", sequence=0) == 0
            assert writer.append(b"1", producer="c", sequence=1) == 104
            with pytest.raises(SequenceTooOld):
                writer.append(b"0", producer="c", sequence=0)
        with log.writer() as writer:
            assert writer.append(b"99", producer="a", sequence=99) == 99
            assert writer.append(b"100", producer="a", sequence=100) == 105
        records: list[Record] = list(log)
        assert [one.sequence for one in records if one.producer == "a"] == list(range(101))
