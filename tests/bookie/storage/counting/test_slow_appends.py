"""An append that took long is told, with where the time went, and seldom."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bookie.storage.counting import slow_appends
from bookie.storage.counting.slow_appends import SlowAppends
from tests.bookie.entries import frame_of
from tests.bookie.serving.served import served
from tests.support.aio import run, until_true

SLOW_SECONDS, TOLD_SECONDS_MIN = 1.0, 10.0


@pytest.fixture(autouse=True)
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger=slow_appends.__name__)
    return caplog


def test_what_is_slow_is_told_with_its_sync_and_what_is_not_is_not(lines: pytest.LogCaptureFixture) -> None:
    slow = SlowAppends(SLOW_SECONDS, TOLD_SECONDS_MIN)
    slow.synced(0.7)
    slow.stored(7, SLOW_SECONDS - 0.001, 0.0)
    assert not lines.records
    slow.stored(7, 1.5, 0.0)
    (record,) = lines.records
    assert record.message == (
        "an append took 1.5 s: 0.7 s the sync of its group, the rest it waited for the log or the event loop"
    )
    assert vars(record)["ledger"] == 7


def test_however_many_are_slow_a_line_comes_seldom_and_counts_the_others(
    lines: pytest.LogCaptureFixture,
) -> None:
    slow = SlowAppends(SLOW_SECONDS, TOLD_SECONDS_MIN)
    for n in range(1000):
        slow.stored(7, 2.0, n * TOLD_SECONDS_MIN / 1000)
    assert len(lines.records) == 1
    slow.stored(8, 2.0, TOLD_SECONDS_MIN)
    assert lines.records[1].message.endswith("; 999 more were slow since the last such line")


def test_a_bookie_tells_of_its_slow_appends(tmp_path: Path, lines: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with served(tmp_path, slow_append_seconds=0.0) as client:
            await client.append(client.request(0, frame_of(7, [0])))
            await until_true(is_told)

    async def is_told() -> bool:
        return bool(lines.records)

    run(main())
    assert vars(lines.records[0])["ledger"] == 7
