"""Retention of logs on real bookies: what a client settles, the auditor does, and what is left can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.upkeep.logs.retention_rounds import ROUND_SECONDS, RetentionRounds
from ledgers import Retention
from ledgers.errors import LogTruncated, Unauthorized
from tests.support.in_process import on_bookies


async def test_segments_go_with_their_ledgers_and_what_a_cursor_needs_stays(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        settled = Retention(bytes=1, cursors=("billing",))
        log = await client.create_log("orders", retention=settled)
        assert log.retention == settled
        for n in range(4):  # a segment each; the last one has ended, too
            async with await log.writer() as writer:
                await writer.append_batch([b"%d" % k for k in range(10 * n, 10 * n + 10)])
        cursor = await log.cursor("billing")
        seconds = 0.0
        rounds = RetentionRounds(cluster.store, lambda: seconds)
        for committed, first in ((0, 0), (15, 10), (40, 30)):
            if committed:
                cursor.commit(committed)
                await cursor.flush()
            await rounds.look()
            seconds += ROUND_SECONDS
            assert await log.first_position() == first
            assert [r.position async for r in log.read()] == list(range(first, 40))
        assert rounds.totals.ledgers == 3
        assert [one.ledger_id async for one in client.list_ledgers()] == [
            s.ledger_id async for s in log.segments()
        ]
        with pytest.raises(LogTruncated):
            await anext(log.read(0))
        await cursor.close()


async def test_who_may_not_truncate_a_log_does_not_settle_what_goes_by_itself(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        log = await client.create_log("orders", password=b"secret")
        async with await log.writer() as writer:
            await writer.append(b"1")
        other = await client.log("orders", password=b"wrong")
        with pytest.raises(Unauthorized):
            await other.set_retention(Retention(bytes=1))
        await log.set_retention(Retention(bytes=1))
        assert (await other.refresh()).retention == Retention(bytes=1)
        await client.delete_log("orders", password=b"secret")
