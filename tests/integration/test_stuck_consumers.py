"""Consumers whose records were given up, whose predecessor died, or whose application hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from prometheus_client import CollectorRegistry

from ledgers import ClientConfig, LogTruncated
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from ledgers.logs.cursors.consumption import OnTruncated
from ledgers.logs.log import Log
from ledgers.logs.record_batch import Record
from ledgers.logs.sets import set_consumption
from ledgers.logs.sets.log_set import LogSet
from ledgers.logs.sets.set_consumption import SetRecord
from metadata import keys
from metadata.records.coordination.candidates import CandidateStore
from metadata.records.coordination.log_shares import LogShares
from metadata.store import MetadataStore
from tests.support.candidates import enter
from tests.support.in_process import InProcessCluster

KEYS = [b"customer-%d" % n for n in range(12)]
"""Each of two logs has six of them."""

HANGS_SECONDS = 0.2
"""What is taken for hanging in these tests."""


async def log_of(client: LedgerClient, records: int) -> Log:
    log = await client.log("orders", create=True)
    async with await log.writer() as writer:
        await writer.append_batch([b"%d" % n for n in range(records)])
    return log


async def set_of(client: LedgerClient) -> LogSet:
    """Two logs with six records each."""
    log_set = await client.log_set("orders", 2)
    async with await log_set.writer() as writer:
        for key in KEYS:
            await writer.append(b"x", key=key)
    return log_set


async def used(records: AsyncGenerator[Record, None]) -> list[int]:
    return [record.position async for record in records]


async def used_of(records: AsyncGenerator[SetRecord, None]) -> dict[int, list[int]]:
    """The positions of each log, in order."""
    found: dict[int, list[int]] = {0: [], 1: []}
    async for log, record in records:
        found[log].append(record.position)
    return found


def missed(registry: CollectorRegistry, log: str, on_truncated: OnTruncated) -> float | None:
    labels = {"log": log, "cursor": "billing", "on_truncated": on_truncated}
    return registry.get_sample_value("bookledger_client_consumer_missed_records_total", labels)


async def test_a_consumer_goes_on_at_the_oldest_record_if_it_may_and_tells_what_it_missed(
    cluster: InProcessCluster, client: LedgerClient, caplog: pytest.LogCaptureFixture
) -> None:
    log = await log_of(client, 10)
    registry = CollectorRegistry()
    async with LedgerClient(cluster.uri, config=ClientConfig(metrics=registry)) as counted:
        theirs = await counted.log("orders")
        records = theirs.consume("billing", timeout=0.5, on_truncated="oldest", commit_seconds=0)
        async with aclosing(records) as records:
            assert [(await anext(records)).position for _ in range(3)] == [0, 1, 2]
        await log.truncate(6)
        with pytest.raises(LogTruncated):
            await used(theirs.consume("billing", timeout=0))
        assert missed(registry, "orders", "raise") == 4
        assert await used(theirs.consume("billing", timeout=0, on_truncated="oldest")) == [6, 7, 8, 9]
        assert missed(registry, "orders", "oldest") == 4
    assert "cursor 'billing' has missed 4 records: position 2 of log 'orders' was truncated" in caplog.text
    with pytest.raises(ValueError, match="on_truncated must be 'raise' or 'oldest', not 'latest'"):
        log.consume("billing", on_truncated="latest")  # type: ignore[arg-type]


async def test_what_was_missed_is_missed_once_also_where_nothing_is_left(client: LedgerClient) -> None:
    log = await log_of(client, 10)
    await (await log.cursor("billing")).close()
    await log.truncate(10)
    assert await used(log.consume("billing", timeout=0, on_truncated="oldest")) == []
    async with await log.cursor("billing") as cursor:
        assert (cursor.position, (await cursor.lag()).truncated) == (10, 0)


@pytest.mark.parametrize("timeout", [0.3, None], ids=["timeout", "for ever"])
async def test_a_truncated_log_of_a_set_is_raised_once_the_others_have_nothing_new(
    client: LedgerClient, monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    monkeypatch.setattr(set_consumption, "TRUNCATED_SECONDS", 0.3)
    log_set = await set_of(client)
    truncated, seen = await log_set.log(1), []
    await (await truncated.cursor("billing")).close()
    await truncated.truncate(4)
    with pytest.raises(LogTruncated, match=r"log 'orders\.1' was truncated; the oldest one left is 4"):
        async for log, record in log_set.consume("billing", timeout=timeout):
            seen.append((log, record.position))
            await asyncio.sleep(0.1)  # longer than it takes to find that the other one is truncated
    assert seen == [(0, n) for n in range(6)]
    assert (await used_of(log_set.consume("billing", timeout=0.3, on_truncated="oldest"))) == {
        0: [],
        1: [4, 5],
    }


async def test_a_group_goes_on_with_a_truncated_log_once_somebody_seeks(client: LedgerClient) -> None:
    log_set = await set_of(client)
    truncated = await log_set.log(1)
    async with await truncated.cursor("billing") as cursor:
        await truncated.truncate(4)
        async with aclosing(log_set.consume("billing")) as records:
            assert [await _place(records) for _ in range(6)] == [(0, n) for n in range(6)]
            waiting = asyncio.ensure_future(_place(records))
            await cursor.seek("beginning")
            assert await waiting == (1, 4)


async def _place(records: AsyncGenerator[SetRecord, None]) -> tuple[int, int]:
    log, record = await anext(records)
    return log, record.position


async def dead_member(store: MetadataStore, log_set: LogSet, lease_seconds: float) -> str:
    """Somebody who joined the group, got both logs, and died: its leases are not renewed. Returns its place."""
    lease = await store.grant_lease(lease_seconds)
    shares = LogShares(store, log_set.name, "billing")
    member = await enter(CandidateStore(store, shares.key), "dead", 0, lease)
    await shares.share([member.key], 2)
    for number in range(2):
        log = await log_set.log(number)
        await (await log.cursor("billing")).close()
        await enter(CandidateStore(store, keys.cursor(log.record.identity, "billing")), "dead", 0, lease)
    return member.key


async def test_a_drain_uses_what_a_member_that_died_had_though_its_lease_runs_longer_than_the_timeout(
    cluster: InProcessCluster, client: LedgerClient
) -> None:
    log_set = await set_of(client)
    await dead_member(cluster.store, log_set, lease_seconds=1.5)
    found = await used_of(log_set.consume("billing", timeout=0.2, lease_seconds=1.5))
    assert found == {0: list(range(6)), 1: list(range(6))}
    begun = time.monotonic()
    assert await used_of(log_set.consume("billing", timeout=0.2)) == {0: [], 1: []}
    assert time.monotonic() - begun < 5, "quiet logs keep nobody"


async def test_a_drain_ends_beside_a_member_that_lives_and_uses_nothing(
    cluster: InProcessCluster, client: LedgerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_consumption, "TAKEN_OVER_SECONDS", 0.5)
    log_set = await set_of(client)
    await dead_member(cluster.store, log_set, lease_seconds=3600)
    assert await used_of(log_set.consume("billing", timeout=0.1, lease_seconds=1)) == {0: [], 1: []}


async def test_a_consumer_that_hangs_loses_its_cursor_to_another_and_what_it_used_is_not_committed(
    client: LedgerClient, caplog: pytest.LogCaptureFixture
) -> None:
    log = await log_of(client, 5)
    hangs = log.consume("billing", poll_seconds_max=HANGS_SECONDS, commit_seconds=0)
    assert [(await anext(hangs)).position for _ in range(3)] == [0, 1, 2]
    async with aclosing(log.consume("billing")) as other:
        assert (await anext(other)).position == 2, "the one that was being used is given again"
        waiting = asyncio.ensure_future(anext(hangs))
        assert [(await anext(other)).position for _ in range(2)] == [3, 4]
    assert (await waiting).position == 4, "it has queued up again"
    await hangs.aclose()
    assert (
        "releases cursor 'billing': one record was used for more than 0.2 s (poll_seconds_max)" in caplog.text
    )
    with pytest.raises(ValueError, match="poll_seconds_max must be more than 0, or None for no limit, not 0"):
        log.consume("billing", poll_seconds_max=0)


async def test_a_consumer_that_asks_in_time_keeps_its_cursor_however_long_a_batch_takes(
    client: LedgerClient,
) -> None:
    log = await log_of(client, 8)
    reading = log.consumption("billing", timeout=0, poll_seconds_max=4 * HANGS_SECONDS)
    async for _ in reading.records():
        await asyncio.sleep(HANGS_SECONDS)
        assert not reading.is_over


async def test_a_member_that_hangs_loses_all_its_logs_and_is_a_member_again_when_it_asks(
    client: LedgerClient, caplog: pytest.LogCaptureFixture
) -> None:
    log_set = await set_of(client)
    hangs = log_set.consume("billing", member="hangs", poll_seconds_max=HANGS_SECONDS, commit_seconds=0)
    first = await _place(hangs)
    found = await used_of(log_set.consume("billing", member="other", timeout=1))
    assert found == {0: list(range(6)), 1: list(range(6))}, first
    waiting = asyncio.ensure_future(_place(hangs))
    async with await log_set.writer() as writer:
        place = await writer.append(b"new", key=KEYS[0])
    assert await waiting == place
    await hangs.aclose()
    assert (
        "member hangs of group 'billing' releases its logs: one record was used for more than" in caplog.text
    )


def test_a_blocking_program_that_hangs_between_two_records_loses_what_it_has(uri: str) -> None:
    with BlockingClient(uri) as client:
        log_set = client.log_set("orders", 2)
        with log_set.writer() as writer:
            for key in KEYS:
                writer.append(b"x", key=key)
        hangs = log_set.consume("billing", poll_seconds_max=HANGS_SECONDS)
        next(hangs)
        assert sum(1 for _ in log_set.consume("billing", timeout=1)) == len(KEYS)
        log = log_set.log(0)
        alone = log.consume("alone", poll_seconds_max=HANGS_SECONDS)
        assert next(alone).position == 0
        assert [record.position for record in log.consume("alone", timeout=0)] == list(range(6))
