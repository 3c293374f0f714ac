"""Logs on real bookies: one writer after another, positions without holes, readers that see what is confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgers import LogFenced
from ledgers.aio import LedgerClient
from ledgers.logs.log import Log
from tests.support.in_process import InProcessCluster, on_bookies


async def payloads(log: Log, start: int | None = None) -> list[bytes]:
    return [record.payload async for record in log.read(start)]


async def positions(log: Log, start: int | None = None) -> list[int]:
    return [record.position async for record in log.read(start)]


def test_positions_count_on_from_one_writer_to_the_next(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        log = await client.log("orders", create=True)
        for n in range(3):
            async with await log.writer() as writer:
                assert [await writer.append(b"%d" % n), await writer.append(b"x")] == [2 * n, 2 * n + 1]
        assert await payloads(log) == [b"0", b"x", b"1", b"x", b"2", b"x"]
        assert await positions(log, 3) == [3, 4, 5]
        assert [await log.first_position(), await log.end()] == [0, 6]

    on_bookies(tmp_path, 3, scenario)


def test_a_fenced_writer_gets_LogFenced_at_its_next_append_and_confirms_nothing_more(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        log = await client.log("orders", create=True)
        old = await log.writer("old")
        await old.append(b"confirmed")
        new = await log.writer("new")
        with pytest.raises(LogFenced, match=r"new, epoch 2.*position 1 is the first that is not confirmed"):
            await old.append(b"too late")
        with pytest.raises(LogFenced):
            await old.append(b"too late")
        assert await new.append(b"on") == 1
        await new.close()
        with pytest.raises(LogFenced):
            await old.close()
        assert await payloads(log) == [b"confirmed", b"on"]

    on_bookies(tmp_path, 3, scenario)


def test_rolling_under_load_keeps_the_order_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        log = await client.create_log("orders", roll_records=50)
        writer = await log.writer()
        futures = []
        for n in range(3000):
            futures.append(await writer.append_async(b"%d" % n))
            if n % 100 == 0:
                await futures[n // 2]
        await writer.flush()
        assert [f.result() for f in futures] == list(range(3000))
        await writer.close()
        segments = [s async for s in log.segments()]
        assert len(segments) > 5
        assert await payloads(log) == [b"%d" % n for n in range(3000)]

    on_bookies(tmp_path, 3, scenario)
