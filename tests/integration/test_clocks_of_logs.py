"""L12: a wrong clock spoils the times of its own records at most, and only where bookies do not say what time it is."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from ledgers import Retention
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from ledgers.logs.log import Log
from ledgers.logs.writing import record_clock
from metadata.records import directory_generations
from metadata.store import MetadataStore
from tests.support.in_process import InProcessCluster

DAY = 86_400.0
LATE_SECONDS = 60.0
"""How old what bookies say of the time may be here."""


class Machine:
    """The clock of the writer's machine; the bookies' are right. `bookies_tell`: they say what time it is."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0
        self.bookies_tell = True
        self.asked = 0

    def time_ns(self) -> int:
        return time.time_ns() + int(self.ahead_seconds * 1e9)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made, time_ms = Machine(), directory_generations.time_ms

    async def told(store: MetadataStore) -> int:
        made.asked += 1
        return await time_ms(store) if made.bookies_tell else 0

    monkeypatch.setattr(record_clock, "time", SimpleNamespace(time_ns=made.time_ns))
    monkeypatch.setattr(record_clock, "directory_generations", SimpleNamespace(time_ms=told))
    return made


async def seconds_ahead(log: Log) -> list[float]:
    """By how much the time of each record is ahead of now."""
    return [record.time / 1e6 - time.time() async for record in log.read()]


async def append(log: Log, count: int = 1) -> None:
    async with await log.writer() as writer:
        await writer.append_batch([b"x"] * count)


@pytest.mark.parametrize("days", [30, -30])
async def test_L12_records_of_a_machine_whose_clock_is_wrong_have_the_bookies_time(
    log: Log, machine: Machine, days: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine.ahead_seconds = days * DAY
    with caplog.at_level(logging.WARNING, logger=record_clock.__name__):
        await append(log)
    machine.ahead_seconds = 0.0
    await append(log)
    assert all(-LATE_SECONDS < ahead <= 0 for ahead in await seconds_ahead(log))
    assert [line.levelname for line in caplog.records] == ["WARNING"]
    assert ("ahead of" if days > 0 else "behind") in caplog.text
    assert await log.position_at(datetime.now(UTC) + timedelta(hours=1)) == 2
    assert await log.position_at(datetime.now(UTC) - timedelta(hours=1)) == 0


async def test_L12_times_that_cannot_be_are_left_behind_with_their_segment(
    log: Log, machine: Machine
) -> None:
    """Where no bookie says what time it is."""
    await append(log)
    machine.ahead_seconds, machine.bookies_tell = 30 * DAY, False
    await append(log, 2)
    machine.ahead_seconds = 0.0
    await append(log)
    assert min((await seconds_ahead(log))[1:]) > 29 * DAY
    machine.bookies_tell = True
    await append(log, 2)

    *spoiled, a, b = await seconds_ahead(log)
    assert len(spoiled) == 4
    assert all(-LATE_SECONDS < one <= 0 for one in (a, b))
    segments = [segment async for segment in log.segments()]
    ends_us = [segment.ended_us for segment in segments]
    assert ends_us == sorted(ends_us)
    assert ends_us[-1] <= time.time_ns() // 1000

    last = [record async for record in log.read()][-1]
    assert await log.position_at(datetime.fromtimestamp(last.time / 1e6, UTC)) == 4
    assert await log.position_at(datetime.now(UTC) + timedelta(hours=1)) == 6
    assert await log.position_at(datetime.now(UTC) - timedelta(hours=1)) == 0
    await log.set_retention(Retention(age_seconds=3600))
    in_two_hours_us = int((time.time() + 7200) * 1e6)
    assert (await log.retained()).judged(in_two_hours_us).before == 6


async def test_L12_a_clock_that_steps_under_a_writer_moves_no_time_and_nobody_is_asked_for_each_append(
    log: Log, machine: Machine
) -> None:
    async with await log.writer() as writer:
        for ahead_seconds in (0.0, 30 * DAY, 0.0, -30 * DAY, 0.0):
            machine.ahead_seconds = ahead_seconds
            for _ in range(10):
                await writer.append(b"x")
    ahead = await seconds_ahead(log)
    assert all(-LATE_SECONDS < one <= 0 for one in ahead)
    times = [record.time async for record in log.read()]
    assert times == sorted(times)
    assert machine.asked == 1


async def test_a_writer_that_learns_that_its_times_cannot_be_goes_on_with_the_true_ones_in_the_next_segment(
    client: LedgerClient, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_clock, "ASK_SECONDS_MIN", 0.0)
    log = await client.create_log("orders", roll_records=2)
    machine.ahead_seconds, machine.bookies_tell = 30 * DAY, False
    async with await log.writer() as writer:
        await writer.append(b"x")
        machine.bookies_tell = True
        for _ in range(50):
            await writer.append(b"x")
    by_segment = [
        [record.time async for record in log.read(segment.first_position, segment.end_position)]
        async for segment in log.segments()
    ]
    assert all(times == sorted(times) for times in by_segment)
    assert by_segment[0][0] > (time.time() + 29 * DAY) * 1e6
    assert by_segment[-1][-1] <= time.time() * 1e6
    assert await log.position_at(datetime.now(UTC) + timedelta(hours=1)) == 51


async def test_a_client_tells_how_far_its_machines_clock_is_ahead(
    cluster: InProcessCluster, machine: Machine
) -> None:
    registry = CollectorRegistry()
    machine.ahead_seconds = 30 * DAY
    async with LedgerClient(cluster.uri, config=ClientConfig(metrics=registry)) as client:
        await append(await client.create_log("orders"))
    ahead = registry.get_sample_value("bookledger_client_clock_ahead_seconds")
    assert ahead is not None
    assert abs(ahead - 30 * DAY) < LATE_SECONDS
