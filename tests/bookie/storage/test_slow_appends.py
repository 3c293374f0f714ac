"""An append that took long is told, with where the time went, and seldom."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest

from bookie.storage import storage_metrics
from bookie.storage.intake_queue import Arrival
from bookie.storage.storage_metrics import LOG_INTERVAL_SECONDS_MIN, SlowAppends
from bookie.wire.data.framing import HEADER, FrameKind
from bookie.wire.messages import Status
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import Client, served
from tests.support.aio import until_true

SLOW_SECONDS = 1.0
PAUSE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger=storage_metrics.__name__)
    return caplog


def test_what_is_slow_is_told_with_where_the_time_went_and_what_is_not_is_not(
    lines: pytest.LogCaptureFixture,
) -> None:
    slow = SlowAppends(SLOW_SECONDS)
    slow.synced(0.7)
    came = Arrival(100.0, 0.5, "10.0.0.7", "client:app")
    slow.stored(7, came, 100.0 + SLOW_SECONDS - 0.5 - 0.001)
    assert not lines.records
    slow.stored(7, came, 101.5)
    (record,) = lines.records
    assert record.message == (
        "an append took 2.0 s: 0.5 s over the network, 0.8 s in the queue, 0.7 s for the sync of its group"
    )
    assert (vars(record)["ledger"], vars(record)["peer"], vars(record)["client"]) == (
        7,
        "10.0.0.7",
        "client:app",
    )


def test_a_sync_that_began_before_it_came_is_told_for_no_longer_than_it_waited(
    lines: pytest.LogCaptureFixture,
) -> None:
    slow = SlowAppends(SLOW_SECONDS)
    slow.synced(7.0)
    slow.stored(7, Arrival(100.0), 101.5)
    assert (
        "took 1.5 s: 0.0 s over the network, 0.0 s in the queue, 1.5 s for the sync"
        in lines.records[0].message
    )


def test_however_many_are_slow_a_line_comes_seldom_and_counts_the_others(
    lines: pytest.LogCaptureFixture,
) -> None:
    slow = SlowAppends(SLOW_SECONDS)
    for n in range(1000):
        now = n * LOG_INTERVAL_SECONDS_MIN / 1000
        slow.stored(7, Arrival(now - 2.0), now)
    assert len(lines.records) == 1
    slow.stored(8, Arrival(LOG_INTERVAL_SECONDS_MIN - 2.0), LOG_INTERVAL_SECONDS_MIN)
    assert lines.records[1].message.endswith("; 999 more slow appends since the last such line")


async def test_a_bookie_tells_of_its_slow_appends(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    async def is_told() -> bool:
        return bool(lines.records)

    async with served(tmp_path, slow_append_seconds=0.0) as client:
        await client.append(client.request(0, frame_of(7, [0])))
        await until_true(is_told)
    assert (vars(lines.records[0])["ledger"], vars(lines.records[0])["peer"]) == (7, "127.0.0.1")


def received_bytes(client: Client) -> float:
    """What the bookie holds of large messages that have not come whole."""
    registry, name = client.bookie.bookie.metrics.registry, "bookledger_bookie_limit_held_bytes"
    return registry.get_sample_value(name, {"limit": "received_bytes"}) or 0.0


async def test_what_a_large_message_takes_to_come_is_told_as_the_networks(
    tmp_path: Path, lines: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, slow_append_seconds=PAUSE_SECONDS) as client, client.stream() as stream:
        body = b"".join(client.request(0, frame_of(7, [0], payload_bytes=300_000)))
        stream.writer.write(HEADER.pack(len(body), 0, FrameKind.APPEND) + body[:200_000])
        await until_true(lambda: received_bytes(client) > 0)
        await asyncio.sleep(PAUSE_SECONDS)  # what is measured
        stream.writer.write(body[200_000:])
        assert [ack.status for ack in (await stream.acks()) or ()] == [Status.OK]
    told = re.search(r": ([\d.]+) s over the network", lines.records[0].message)
    assert told is not None and float(told[1]) >= PAUSE_SECONDS
